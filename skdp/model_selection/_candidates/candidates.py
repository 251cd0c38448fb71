"""Candidates: the estimator with the settings of a grid, under a budget that the search sets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sklearn.base import clone, is_classifier
from sklearn.model_selection import ParameterGrid

from skdp._checks import fail
from skdp.linear_model.validation import check_ledger
from skdp.model_selection._candidates.ownership import (
    OWNED,
    check_built,
    check_private,
    check_same,
    prefix_of,
    private_step,
)
from skdp.privacy.ledger import Budget


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

    def built(self, which: int) -> Any:
        """Return a candidate with what the grid sets; neither the estimator nor the grid is kept.

        Raises
        ------
        ValueError
            If the grid gives it a private model with a budget, ledger, neighbouring relation and
            the like of its own.
        """
        model = clone(self.estimator)
        step = private_step(model)
        model.set_params(**clone_values(self.settings[which]))
        if private_step(model) is not step:
            check_same(private_step(model), self.private)
        return model

    def model(self, which: int, budget: Budget, share: float, seed: int | None) -> Any:
        """Return a candidate, not fitted, that is about to see a share of the records."""
        model = self.built(which)
        settings = {"epsilon": budget.epsilon, "delta": budget.delta, "random_state": seed}
        settings["ledger"] = None
        if self.labels is not None:
            settings["classes"] = self.labels
        if (n := self.public("n_public")) is not None:
            settings["n_public"] = max(1, round(share * n))
        known, prefix = private_step(model).get_params(deep=False), prefix_of(model)
        owned = {prefix + name: value for name, value in settings.items() if name in known}
        return model.set_params(**owned)


def candidates_of(estimator: Any, grid: Any) -> Candidates:
    """Check an estimator and a grid, and return the candidates."""
    prefix = prefix_of(estimator)
    check_private(private_step(estimator))
    check_ledger("the estimator's ledger", getattr(private_step(estimator), "ledger", None))
    settings = tuple(dict(one) for one in ParameterGrid(grid))
    if not settings:
        raise fail("param_grid", "hold at least one candidate")
    found = Candidates(estimator, settings, prefix)
    if refused := [name for name in found.names if name.removeprefix(prefix) in OWNED]:
        remedy = "Whatever is fixed for all candidates is set on the estimator or on the search."
        raise fail("param_grid", f"leave out {list(OWNED)}", refused, remedy)
    for which in range(len(found)):
        check_built(found.built(which), found.neighbors)  # an unknown name raises here
    return found


def clone_values(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings of which each estimator is a copy of its own."""
    return {name: clone(value, safe=False) for name, value in settings.items()}
