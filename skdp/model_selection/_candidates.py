"""Candidates: the estimator with the settings of a grid, under a budget that the search sets."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sklearn.base import clone, is_classifier
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import Pipeline

from skdp._checks import fail
from skdp.privacy import BudgetExceeded, Ledger
from skdp.privacy.ledger import Budget

# The search sets these itself, or the proof needs them to be the same for all candidates.
OWNED = ("epsilon", "delta", "ledger", "random_state", "neighbors", "n_public", "classes", "domain")
# A ceiling below every budget.
_NOTHING = 5e-324


@dataclass(frozen=True)
class Candidates:
    """The settings to choose from, and how to make a model of each.

    Attributes
    ----------
    estimator : estimator or Pipeline
    settings : tuple of dict
        One for each candidate.
    prefix : str
        What leads to the parameters of the private model: "" or a step's name and "__".
    labels : list or None
        The label set, where none was declared.
    """

    estimator: Any
    settings: tuple[dict[str, Any], ...]
    prefix: str
    labels: Any = None

    def __len__(self) -> int:
        return len(self.settings)

    @property
    def private(self) -> Any:
        """The private model itself: the last step of a pipeline."""
        return private_step(self.estimator)

    @property
    def names(self) -> list[str]:
        """Names of the parameters that the grid sets."""
        return sorted({name for one in self.settings for name in one})

    @property
    def neighbors(self) -> str:
        """The neighbouring relation."""
        return str(self.public("neighbors", "replace_one"))

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Bounds of the target, where a domain declares them."""
        domain = self.public("domain")
        found: tuple[float, float] | None = getattr(domain, "target_bounds", None)
        return found

    @property
    def declared_labels(self) -> Any:
        """The label set, if it is declared."""
        labels = self.public("classes")
        return getattr(self.public("domain"), "target_labels", None) if labels is None else labels

    @property
    def classifier(self) -> bool:
        """Whether labels are predicted."""
        return bool(is_classifier(self.private))

    def public(self, name: str, otherwise: Any = None) -> Any:
        """Return a parameter of the private model."""
        return getattr(self.private, name, otherwise)

    def model(self, which: int, budget: Budget, share: float, seed: int | None) -> Any:
        """Return a candidate, not fitted, that is about to see a share of the records."""
        settings = {"epsilon": budget.epsilon, "delta": budget.delta, "random_state": seed}
        settings["ledger"] = None
        if self.labels is not None:
            settings["classes"] = self.labels
        if (n := self.public("n_public")) is not None:
            settings["n_public"] = max(1, round(share * n))
        known = self.private.get_params(deep=False)
        owned = {self.prefix + name: value for name, value in settings.items() if name in known}
        model = clone(self.estimator).set_params(**clone_values(self.settings[which]))
        return model.set_params(**owned)


def candidates_of(estimator: Any, grid: Any) -> Candidates:
    """Check an estimator and a grid, and return the candidates."""
    prefix = prefix_of(estimator)
    private = private_step(estimator)
    known = private.get_params(deep=False) if hasattr(private, "get_params") else {}
    missing = [name for name in ("epsilon", "delta", "random_state") if name not in known]
    if missing:
        rule = f"be a private estimator with parameters {missing}"
        raise fail("estimator", rule, type(private), "Take one of skdp.linear_model.")
    settings = tuple(dict(one) for one in ParameterGrid(grid))
    if not settings:
        raise fail("param_grid", "hold at least one candidate")
    found = Candidates(estimator, settings, prefix)
    if refused := [name for name in found.names if name.removeprefix(prefix) in OWNED]:
        remedy = "Whatever is fixed for all candidates is set on the estimator or on the search."
        raise fail("param_grid", f"leave out {list(OWNED)}", refused, remedy)
    for which in range(len(found)):
        found.model(which, Budget(1.0, 0.0), 1.0, None)  # an unknown name raises here
    return found


def prefix_of(estimator: Any) -> str:
    """Return what leads to the private model's parameters."""
    if not isinstance(estimator, Pipeline):
        return ""
    name, last = estimator.steps[-1]
    return f"{name}__{prefix_of(last)}"


def private_step(estimator: Any) -> Any:
    """Return the last step of a pipeline, or the estimator itself."""
    return private_step(estimator.steps[-1][1]) if isinstance(estimator, Pipeline) else estimator


def clone_values(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings of which each estimator is a copy of its own."""
    return {name: clone(value, safe=False) for name, value in settings.items()}


class Rehearsal:
    """Raise what fits would raise before they charge their budget, and charge none.

    A ledger with nothing in it stops each fit after all that it checks and before any noise.
    """

    def __enter__(self) -> Rehearsal:
        self._folder = tempfile.TemporaryDirectory(prefix="skdp-rehearsal-")
        self._closed = Ledger(_NOTHING, path=f"{self._folder.name}/ledger.sqlite3")
        return self

    def __exit__(self, *error: object) -> None:
        self._folder.cleanup()

    def __call__(self, model: Any, X: Any, y: Any) -> None:
        """Rehearse one fit; a model without a ledger is not rehearsed."""
        name = prefix_of(model) + "ledger"
        if name not in model.get_params():
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                model.set_params(**{name: self._closed}).fit(X, y)
            except BudgetExceeded:
                return
        raise fail("estimator", "charge its ledger before it draws noise", type(model))
