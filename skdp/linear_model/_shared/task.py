"""The public facts of a fit, its records, and the stages in which its budget is spent."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp._arrays import FloatArray
from skdp._progress import draw_bar
from skdp.linear_model._shared.design import Design
from skdp.mechanisms.noise import publication, variances
from skdp.rows import Rows
from skdp.trusted.releases import NoisySum, records_changed

# Privacy losses with counts.
Losses = tuple[Any, ...]


@dataclass(frozen=True)
class Task:
    """The public facts of a fit, from which algorithms make their plans."""

    design: Design
    n: int | None  # the number of records; None if it is private
    epsilon: float
    delta: float = 0.0
    neighbors: str = "replace_one"
    n_models: int = 1  # that share the budget
    n_public: int | None = None  # a public order of magnitude of the number of records
    # Whether a record is a person with any number of rows, whose weights add up to at most 1.
    are_persons: bool = False

    @property
    def known(self) -> int | None:
        """The number of records or its public order of magnitude, if either is public."""
        return self.n_public if self.n is None else self.n

    @property
    def moved(self) -> float:
        """The number of records whose contributions differ between neighbouring data sets."""
        return float(records_changed(self.neighbors))


def removed_and_added(task: Task) -> Task:
    """Return a task under add/remove whose release is private under replace-one.

    A replacement is a removal and an addition. A release that is (epsilon / 2, delta')-private for
    each is private for both at epsilon and delta' (1 + e^(epsilon / 2)). It is needed where the
    weights of a person may add up to any number below 1, so that their sum over persons is private.
    """
    half = task.epsilon / 2
    return replace(
        task,
        neighbors="add_remove",
        n=None,
        n_public=task.known,
        epsilon=half,
        delta=task.delta / (1 + math.exp(min(half, 700.0))) * (1 - 1e-12),
    )


def losses_of_all(parts: Iterable[Losses]) -> Losses:
    """Return the privacy losses of all parts of a release; nothing if those of one are unknown."""
    parts = tuple(parts)
    return sum(parts, ()) if all(parts) else ()


@dataclass(frozen=True)
class Stage:
    """A stage of a fit: what is released, and with which noise. It depends on public facts only.

    Attributes
    ----------
    name : {"scaling", "objective", "output", "cross", "moments", "gradients", "choices", \
"scales", "limits", "scores", "curvatures", "squares"}
        "scaling": sums from which clipping bounds, means and scales are estimated. "objective":
        the random linear term of the objective. "output": noise on its minimiser, which hides the
        inexactness of the solver. "cross": sums of products of the target with the features.
        "moments": sums of products of all columns. "gradients": steps of
        coordinate descent. "choices": private choices of greedy coordinates. The others are those
        of the inference stage. "scales": sums of numbers and residuals. "limits": how many values
        are at bounds. "scores" and "curvatures": the estimating equations at the model. "squares":
        sums of squared influences.
    law : str
        The law of the noise.
    releases : int
        Greatest number of releases.
    deviation : float
        Standard deviation of the noise in one released number; its root mean square over the
        numbers of a release. Its units are those of sums over records whose numbers are encoded
        to [-1, 1], for "output" those of coefficients of encoded columns.
    epsilon, delta : float or None
        Parts of the budget that the stage spends; they add up over the stages. None if the stages
        are composed jointly, as those with Gaussian noise, or if a private search chose the model.
        Then only the whole is known: see ``guarantee_``.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import Domain, DPLogisticRegression
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(5000, 2))
    >>> y = (X[:, 0] > X[:, 1]).astype(int)
    >>> domain = Domain.unit_box(2, target=[0, 1])
    >>> for stage in DPLogisticRegression(domain=domain).fit(X, y).stages_:
    ...     print(stage.name, stage.law, round(stage.epsilon, 4))
    scaling KNormNoise(SquaresBall) 0.1084
    objective KNormNoise(ProductBall) 0.8907
    output discrete Laplace 0.0009
    """

    name: str
    law: str
    releases: int
    deviation: float
    epsilon: float | None = None
    delta: float | None = None

    @classmethod
    def of(
        cls,
        name: str,
        noise: Any,
        epsilon: float | None = None,
        delta: float | None = None,
        releases: int = 1,
    ) -> Stage:
        """Return the stage that releases vectors with a noise."""
        own = variances(noise)
        return cls(name, law_of(noise), releases, math.sqrt(own.mean()), epsilon, delta)


class ReleasePlan:
    """A plan of noisy sums; public information only."""

    @property
    def releases(self) -> tuple[NoisySum, ...]:
        """The releases in their order."""
        raise NotImplementedError

    @property
    def noises(self) -> tuple[Any, ...]:
        """The noises of the releases, in their order."""
        return tuple(release.noise for release in self.releases)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages of the fit. Several ones with a delta are composed jointly."""
        named = [(release.name, release.noise) for release in self.releases]
        if len(named) > 1 and any(noise.guarantee.delta > 0 for noise in self.noises):
            return tuple(Stage.of(*own) for own in named)
        facts = [(*own, own[1].guarantee) for own in named]
        return tuple(Stage.of(name, own, g.epsilon, g.delta) for name, own, g in facts)

    @property
    def losses(self) -> Losses:
        """Privacy losses of all releases with counts; empty if one of them has none."""
        return losses_of_all(noise.guarantee.losses for noise in self.noises)

    def check_published(self) -> None:
        """Raise an error if 53-bit floats cannot keep the guarantee."""
        for noise in self.noises:
            publication(noise)


def law_of(noise: Any) -> str:
    """Return the law of a noise in a few words."""
    law, ball = getattr(noise, "law", None), getattr(noise, "ball", None)
    if law is not None:
        return repr(law)
    kind = type(noise).__name__
    return kind if ball is None else f"{kind}({type(ball).__name__})"


@dataclass(frozen=True, eq=False)
class Records:
    """The rows of a fit, with what is public of them."""

    design: Design
    rows: Rows  # the private rows with their targets
    labels: tuple[int, ...] = ()  # positions of those that models predict; none in a regression
    label_weights: FloatArray | None = None  # in [0, 1], of rows with each label; None if all are 1

    @property
    def models(self) -> tuple[int | None, ...]:
        """The label of each model; one None for a regression."""
        return self.labels or (None,)


def target_of(target: NDArray, label: int | None) -> FloatArray:
    """Return the target of a model: indicators of its label, or the numbers of a regression."""
    return target if label is None else (target == label).astype(float)


@dataclass(frozen=True, eq=False)  # an array has no single truth value to compare by
class Progress:
    """A model after one pass of coordinate descent; it depends on released gradients only.

    Attributes
    ----------
    model, n_models : int
        Position of the model, from 0, and number of models: one, or one per class if there are
        more than two classes and no joint model of them.
    n_pass, n_passes : int
        Number of passes made, and number planned.
    coef : ndarray of shape (n_encoded,), or (n_classes, n_encoded) for a joint model
        Coefficients in the user's units, as in ``coef_``, but not averaged over passes.
    intercept : float, or ndarray of shape (n_classes,)

    Examples
    --------
    >>> from skdp import Domain, DPCoordinateDescentClassifier
    >>> domain = Domain({"age": (17, 90), "sex": ["f", "m"]}, target=["no", "yes"])
    >>> X, y = domain.sample(500, random_state=0, with_target=True)  # artificial rows
    >>> seen = []
    >>> model = DPCoordinateDescentClassifier(n_passes=3, domain=domain, callback=seen.append)
    >>> model = model.fit(X, y)
    >>> seen[-1].n_pass == seen[-1].n_passes
    True
    """

    model: int
    n_models: int
    n_pass: int
    n_passes: int
    coef: NDArray[np.float64]
    intercept: float | NDArray[np.float64]

    def show(self) -> None:
        """Draw a progress bar on standard error."""
        done = self.model * self.n_passes + self.n_pass
        draw_bar(done, self.n_models * self.n_passes, "pass")
