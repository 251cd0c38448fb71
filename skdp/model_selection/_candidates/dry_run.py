"""A dry run of every fit: errors and promises are known before anything is spent."""

from __future__ import annotations

import tempfile
from typing import Any

from skdp._checks import fail
from skdp.model_selection._candidates.ownership import prefix_of
from skdp.model_selection._candidates.silence import silence
from skdp.privacy import BudgetExceeded, Ledger
from skdp.privacy.ledger import Budget, Entry

# A ceiling below every budget.
_NOTHING = 5e-324


class DryRun:
    """Raise what fits would raise before they charge their budget, and charge none.

    A ledger with nothing in it stops each fit after all that it checks and before any noise. What
    the fit asks for has to be what the search gives it, under the search's neighbouring relation.

    Parameters
    ----------
    neighbors : {"replace_one", "add_remove"}
    secret : bool
        Whether the search's noise cannot be predicted.
    """

    def __init__(self, neighbors: str, secret: bool) -> None:
        self.neighbors, self.secret = neighbors, secret

    def __enter__(self) -> DryRun:
        self._folder = tempfile.TemporaryDirectory(prefix="skdp-dry-run-")
        self._closed = Ledger(_NOTHING, path=f"{self._folder.name}/ledger.sqlite3")
        return self

    def __exit__(self, *error: object) -> None:
        self._folder.cleanup()

    def __call__(self, model: Any, X: Any, y: Any, budget: Budget) -> None:
        """Try one fit without noise.

        Without a ledger there is nothing to try; the guarantee says that its word is taken.
        """
        name = prefix_of(model) + "ledger"
        if name not in model.get_params():
            return
        refused = None
        with silence():
            try:
                model.set_params(**{name: self._closed}).fit(X, y)
            except BudgetExceeded as error:
                refused = error
        if refused is None:
            raise fail("estimator", "charge its ledger before it draws noise", type(model))
        if refused.asked is not None:
            self._check(refused.asked, budget)

    def _check(self, asked: Entry, budget: Budget) -> None:
        if asked.neighbors != self.neighbors:
            rule = f"promise what it does under neighbors={self.neighbors!r}"
            raise fail("every candidate", rule, asked.neighbors)
        if asked.epsilon > budget.epsilon or asked.delta > budget.delta:
            rule = f"charge at most the {budget} that it is given"
            raise fail("every candidate", rule, str(Budget(asked.epsilon, asked.delta)))
        if self.secret and not asked.holds:
            rule = "promise what holds where the search has no random_state"
            raise fail("every candidate", rule)
