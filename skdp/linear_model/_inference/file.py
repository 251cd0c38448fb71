"""The file of an inference, which proves its guarantee and has the released sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from skdp._codec import VERSION, encode, package_version
from skdp.domain import Domain
from skdp.linear_model._inference.estimate import NoisyEquations
from skdp.linear_model._objective.theorem import NoisyMinimiser
from skdp.linear_model.proof import Claim, written
from skdp.privacy import Guarantee
from skdp.trusted.arrays import FloatArray
from skdp.trusted.checks import fail
from skdp.trusted.releases import NoisySum, PrivateChoice
from skdp.trusted.statement import Public


@dataclass(frozen=True, eq=False)
class InferenceFile:
    """The entries of the file, beside its kind and version."""

    skdp: str
    guarantee: Guarantee
    fit: Guarantee | None
    public: Public
    releases: tuple[NoisySum | NoisyMinimiser | PrivateChoice | Claim, ...]
    model: str
    domain: Domain
    records: Domain | None  # of the releases, if it is another one
    equations: NoisyEquations
    sampling: FloatArray
    freedom: float
    rows: FloatArray
    constants: FloatArray
    notes: tuple[str, ...]
    n_records: int | None

    @classmethod
    def of(cls, found: Any) -> InferenceFile:
        """Return the entries of an `Inference`."""
        own = found.estimate
        sums = own.equations, own.sampling, own.freedom, found.rows, found.constants
        values = [*sums[3:], own.sampling, *vars(own.equations).values()]
        if not all(np.isfinite(value).all() for value in values):
            raise fail("the inference", "have finite sums, as its file")
        return cls(
            package_version(),
            found.guarantee,
            found.fit,
            found.public,
            written(found.releases, found.public),  # type: ignore[arg-type]
            found.model,
            found.domain,
            None if found.records == found.domain else found.records,
            *sums,
            found.notes,
            found.n_records,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the entries as plain values."""
        own = {name: encode(name, value) for name, value in vars(self).items()}
        return {"kind": "Inference", "version": VERSION, **own}
