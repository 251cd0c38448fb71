"""What a search says of itself: its guarantee, and the results that were released."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.model_selection._candidates import Candidates
from skdp.model_selection._material import Found
from skdp.privacy import Guarantee
from skdp.privacy.ledger import Budget

_PUBLIC = (
    "the domain, the labels, the candidates and all parameters were chosen without the data",
    "one record is one row of X with its target",
    "the score of a record depends on this record and the model alone",
    "running time, memory and errors are not observed",
)
_STEPS = "the steps before the model learn nothing from the data"
_LABELS = "which labels occur in y is public: it was read off y, as none were declared"
_SEEDED = "the noise came from random_state and not from the operating system"


def guarantee_of(candidates: Candidates, how: str, whole: Budget, secret: bool) -> Guarantee:
    """Return the guarantee of a whole search; ``how`` ends the mechanism's sentence."""
    told = [*_PUBLIC]
    told += [_STEPS] if candidates.prefix else []
    told += [_LABELS] if candidates.labels is not None else []
    name = type(candidates.private).__name__
    return Guarantee(
        whole.epsilon,
        whole.delta,
        neighbors=candidates.neighbors,
        mechanism=f"private search over {len(candidates)} candidates of {name}: {how}",
        assumptions=tuple(told),
        void_because=() if secret else (_SEEDED,),
    )


def results_of(candidates: Candidates, found: Found) -> dict[str, Any]:
    """Return the candidates in scikit-learn's columns, and what was released of them."""
    chosen = np.arange(len(candidates)) == found.which
    columns: dict[str, Any] = {
        f"param_{name}": _column(candidates, name) for name in candidates.names
    }
    columns["params"] = [dict(one) for one in candidates.settings]
    columns["rank_test_score"] = np.where(chosen, 1, 2)
    if found.score is not None:
        columns["mean_test_score"] = np.where(chosen, found.score, np.nan)
    return columns


def _column(candidates: Candidates, name: str) -> NDArray[Any]:
    """Return the values of one parameter, masked where a candidate does not set it."""
    values = np.empty(len(candidates), dtype=object)
    values[:] = [one.get(name) for one in candidates.settings]
    return np.ma.MaskedArray(values, mask=[name not in one for one in candidates.settings])
