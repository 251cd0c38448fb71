"""The releases of a fitted model or an inference, proved again from it alone.

`check_proof` evaluates the theorem of every release, and compares what the releases say of records
with the model's domain. What it cannot compute it returns as assumptions.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from skdp._codec import encode
from skdp.domain import Domain
from skdp.geometry import LpBall, ProductBall, SquaresBall
from skdp.linear_model._inference import theorem as tables
from skdp.linear_model._moments.theorem import (
    FirstChange,
    cross_change,
    first_sums,
    greatest_square,
    layout_of,
    mean_ball,
    moment_ball,
)
from skdp.linear_model._objective.theorem import NoisyMinimiser
from skdp.linear_model._shared.design import Design
from skdp.linear_model._shared.gram import ColumnSums
from skdp.linear_model.validation import WEIGHTED
from skdp.noise.matrix import MatrixNoise, RowsWithin
from skdp.privacy import Guarantee
from skdp.trusted.ball import Change
from skdp.trusted.certify import Line, Listed, NoisySum, PrivateChoice, certify, described, overview
from skdp.trusted.checks import check_interval, check_positive, fail, others_in
from skdp.trusted.losses import PairLoss
from skdp.trusted.statement import NotPrivate, Public, Spent

_WIDTH = 78
# What the guarantee of ``infer`` assumes.
PUBLIC_MODEL = "the model is public, or its fit has a guarantee of its own, which adds to this one"
# What precedes the releases of the chosen fit in the guarantee of a search.
CHOSEN = "; the chosen fit: "
ASSUMED = (
    "What the file has was computed from the releases that are listed, a table also from its model,"
    " and from nothing else of the data."
    " Each sum was that of the encoded records, and its noise was drawn once, from the law that is"
    " stated. Nothing in the file proves this, or who wrote it.",
    "The random numbers were secret, and nothing else was computed from them.",
)


@dataclass(frozen=True, repr=False)
class Claim:
    """A release that a file does not hold, because a part of it is not of this package."""

    name: str
    theorem: str
    law: str
    times: int
    deviation: float
    epsilon: float | None  # that is claimed; None if it is composed with others
    relies_on: tuple[str, ...]  # the classes of the parts
    description: str = ""

    def __post_init__(self) -> None:
        check_interval("deviation", self.deviation, 0.0, math.inf)
        if not self.relies_on:
            raise fail("relies_on", "name the parts that are not of this package")
        if self.epsilon is not None:
            check_positive("epsilon", self.epsilon)

    @classmethod
    def of(cls, release: Listed, public: Public) -> Claim:
        kinds = dict.fromkeys(type(part) for part in others_in(release))
        names = tuple(f"{kind.__module__}.{kind.__qualname__}" for kind in kinds)
        known = names or (f"a part of {release.law}",)
        return cls(*overview([release], public)[0], known, release.description)

    __repr__ = described

    @property
    def publication(self) -> None:
        """Nothing: it is not published again."""

    def spent(self, public: Public) -> Spent:
        if self.epsilon is None:
            raise NotPrivate(f"{self.name}: {self.assumption}")
        return Spent(self.epsilon, ((PairLoss(self.epsilon), 1),))

    @property
    def assumption(self) -> str:
        """What a reader has to trust."""
        loss = "" if self.epsilon is None else f" has a privacy loss of at most {self.epsilon:.6g}"
        return (
            f"The release `{self.name}`{loss or ' spends no more than the rest of the budget'}. It"
            f" relies on {' and '.join(self.relies_on)}, which is not part of skdp, and was not"
            " checked."
        )


def written(releases: Sequence[Listed], public: Public) -> tuple[Listed, ...]:
    """Return releases as a file holds them: those with parts of other packages are claims."""
    found: list[Listed] = []
    for release in releases:
        try:
            encode("a release", release)
        except ValueError:
            release = Claim.of(release, public)
        found.append(release)
    return tuple(found)


class Proof(NamedTuple):
    """What `check_proof` returns.

    Attributes
    ----------
    guarantee : Guarantee
    lines : tuple of Line
        One line for each release.
    assumptions : tuple of str
        What no computation can check.

    Examples
    --------
    >>> from skdp import Domain, DPHuberRegressor
    >>> from skdp.linear_model import check_proof
    >>> domain = Domain({"age": (17, 90)}, target=(0, 100))
    >>> X, y = domain.sample(500, random_state=0, with_target=True)
    >>> proof = check_proof(DPHuberRegressor(domain=domain, scaling_share=0).fit(X, y))
    >>> print(proof)
    Differential privacy guarantee
    ...
    Releases, each checked by its theorem
    <BLANKLINE>
    name             epsilon   times       noise
    objective              1       1 ...
      KNormNoise(ProductBall); objective_perturbation.md, Theorem 1
    ...
    """

    guarantee: Guarantee
    lines: tuple[Line, ...]
    assumptions: tuple[str, ...]

    def __str__(self) -> str:
        lines = [str(self.guarantee), "", "Releases, each checked by its theorem", ""]
        lines.append(f"{'name':14}{'epsilon':>10}{'times':>8}{'noise':>12}")
        for own in self.lines:  # two lines for a release: a law may be long
            epsilon = "composed" if own.epsilon is None else f"{own.epsilon:.4g}"
            lines.append(f"{own.name:14}{epsilon:>10}{own.times:>8}{own.deviation:>12.4g}")
            lines.append(f"  {own.law}; {own.theorem}")
        lines += ["", "What no computation can check, beside what the guarantee assumes", ""]
        for sentence in self.assumptions[len(self.guarantee.assumptions) :]:
            lines += textwrap.wrap(f"- {sentence}", _WIDTH, subsequent_indent="  ")
        return "\n".join(lines)


def check_proof(model: Any) -> Proof:
    """Prove the guarantee of a fitted model, or of an inference, without its data.

    Parameters
    ----------
    model : fitted estimator of this package, or Inference
        From ``fit``, ``infer`` or `load_model`.

    Returns
    -------
    Proof

    Raises
    ------
    NotPrivate
        With the inequality that fails, and by how much, or the release that does not belong to the
        records of the model's domain.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import Domain, DPHuberRegressor
    >>> from skdp.linear_model import check_proof, from_json
    >>> domain = Domain.unit_box(2, target=(-1, 1))
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(100, 2))
    >>> model = DPHuberRegressor(epsilon=0.5, domain=domain).fit(X, X[:, 0])
    >>> proof = check_proof(from_json(model.to_json()))
    >>> proof.guarantee.epsilon, [release.name for release in proof.lines]
    (0.5, ['objective'])
    """
    with np.errstate(all="ignore"):
        try:
            return _proof(model)
        except NotPrivate:
            raise
        except Exception as error:
            # Of a file that was made by hand: its parts contradict each other.
            found = f"{type(error).__name__}: {error}"
    raise NotPrivate(f"the releases cannot be evaluated ({found})")


def _proof(model: Any) -> Proof:
    if hasattr(model, "releases_"):
        guarantee, public, releases = model.guarantee_, model.public_, model.releases_
        design, check_parts = model._records, _check_model
    else:
        guarantee, public, releases = model.guarantee, model.public, model.releases
        design, check_parts = Design(model.records, True), _check_inference
    assumptions = [*guarantee.assumptions]
    stated = guarantee.epsilon, guarantee.delta
    if (guarantee.neighbors, guarantee.unit) != (public.neighbors, public.unit):
        raise NotPrivate("the guarantee and the releases are about other neighbouring data sets")
    if public.epsilon > stated[0] or public.delta > stated[1]:
        raise NotPrivate(
            f"the releases are private at {public.epsilon:.9g}, {public.delta:.9g}, and the"
            f" guarantee states {stated[0]:.9g}, {stated[1]:.9g}"
        )
    if (public.epsilon, public.delta) != stated:
        assumptions.append(
            "A private search chose the model, and the guarantee is that of the search. Its choice"
            " and its other fits are not listed. The releases are those of one fit, which alone has"
            f" epsilon = {public.epsilon:.6g} and delta = {public.delta:.6g}."
        )
    check_parts(model)
    open_claims = [own for own in releases if isinstance(own, Claim) and own.epsilon is None]
    others = [own for own in releases if own not in open_claims]
    whole = certify(others, public)
    if guarantee.mechanism.rpartition(CHOSEN)[2] != ", then ".join(
        own.description for own in releases
    ):
        raise NotPrivate("the guarantee names other releases, or in another order")
    if not open_claims and (public.epsilon, public.delta) == stated:
        guarantee = replace(guarantee, losses=whole.losses)
    if check_parts is _check_inference:
        assumptions += [] if model.fit is None else [PUBLIC_MODEL]
        if public.unit == "person" and not public.in_two_steps:
            assumptions.append("The weights of the rows of each person add up to at most 1.")
    for release in releases:
        assumptions += _unproved(release, design, public)
    known = iter(overview(others, public))
    lines = [
        Line(*(getattr(own, name) for name in Line._fields)) if own in open_claims else next(known)
        for own in releases
    ]
    return Proof(guarantee, tuple(lines), (*assumptions, *ASSUMED))


def _check_model(model: Any) -> None:
    """Raise `NotPrivate` if the model has parts that no release gives."""
    names = {release.name for release in model.releases_}
    needed = {"objective", "moments", "gradients"}
    missing = [] if names & needed else [" or ".join(sorted(needed))]
    if (own := model._clipping) is not None and "scaling" not in names:
        bounds = np.abs(np.concatenate([own.lower, own.upper, own.target]))
        missing += ["scaling"] * bool((bounds < 1).any())
    if any(isinstance(getattr(own, "change", None), RowsWithin) for own in model.releases_):
        missing += sorted({"cross", "scaling"} - names)  # moments of scaled columns
    if model._records.domain.n_encoded < model._design.domain.n_encoded:
        missing.append("the columns of the model")
    _refuse_missing("model", missing)
    objectives = [own for own in model.releases_ if isinstance(own, NoisyMinimiser)]
    count = sum(own.models * own.n_classes for own in objectives)
    if objectives and count < len(model._encoded_coef):
        raise NotPrivate("objective has fewer coefficients than the model")
    choices = sum(own.times for own in model.releases_ if own.name == "intercepts")
    if hasattr(model, "quantile") and model._design.intercept and choices < count:
        raise NotPrivate("intercepts has fewer choices than the model has intercepts")
    are_weighted = WEIGHTED in model.guarantee_.assumptions
    if not (model.public_.in_two_steps or model._is_whole(model.public_.unit, are_weighted)):
        raise NotPrivate("the rows of a record have weights that need a guarantee in two steps")


def _check_inference(model: Any) -> None:
    """Raise `NotPrivate` if the inference has numbers that no release gives."""
    domain, public = model.records, model.public
    sums = {own.name: own for own in model.releases if isinstance(own, NoisySum | Claim)}
    moments = sums.get("moments")
    vectors = {"numerators", "denominators", "squares"}
    needed = (
        {"moments"} if moments is not None else {"coordinates", "scores", "curvatures", *vectors}
    )
    is_regression = domain.target_bounds is not None
    if moments is None and (domain.n_numbers or is_regression):
        needed |= {"scales"} if domain.n_numbers else set()
        needed |= {"limits"} if tables.counted_ends(domain, is_regression) else set()
        counts = [sums[name] for name in ("sizes", "other sizes") if name in sums]
        dims = [own.noise.dim for own in counts if isinstance(own, NoisySum)]
        # Those of means, too, if the predictor is their logarithm, where slopes are not 1.
        n_sizes = domain.n_numbers + is_regression * (1 + (model.slope != 1.0))
        if len(dims) == len(counts) and sum(dims) != tables.CELLS * n_sizes:
            needed |= {"sizes of all numbers"}
    missing = sorted(needed - {*sums})
    for own in (sums[name] for name in vectors & {*sums}):
        # Fewer: a table of `without` or `merge`.
        if isinstance(own, NoisySum) and own.noise.dim < len(model.estimate.start):
            missing.append(f"each coefficient in {own.name}")
    if isinstance(moments, NoisySum) and not isinstance(moments.noise, MatrixNoise):
        missing.append("products of columns")
    if domain.n_encoded < model.domain.n_encoded:
        missing.append("its columns")
    if model.n_records is not None and public.relation == "add_remove":
        missing.append("the number of records")
    _refuse_missing("inference", missing)


def _refuse_missing(what: str, missing: Sequence[str]) -> None:
    if missing:
        raise NotPrivate(f"no release gives {', '.join(missing)}, which the {what} has")


def _unproved(release: Listed, design: Design, public: Public) -> Iterator[str]:
    """Yield what does not follow from the domain; raise `NotPrivate` if something contradicts it.

    A change that does not follow is stated in words: a reader has to trust it.
    """
    if isinstance(release, Claim):
        yield release.assumption
    elif isinstance(release, NoisyMinimiser):
        own = release.design.domain, release.design.intercept, release.name
        if own != (design.domain, design.intercept, "objective"):
            raise NotPrivate(f"{release.name}: its records are not those of the model's domain")
    elif isinstance(release, PrivateChoice):
        yield (
            f"One record changes the log-probabilities of `{release.name}` within an interval of"
            f" length {release.width:.6g}."
        )
    elif isinstance(release, NoisySum):
        expected = _expected(release, design, public)
        if expected is None:
            shifts = getattr(release.change, "shifts", None)
            sizes = " and ".join(f"{n} of them by {s:.6g}" for s, n in shifts) if shifts else ""
            what = f"at most {sizes}" if sizes else f"an element of {release.change!r}"
            yield f"One record changes the sums of `{release.name}` by {what}."
        elif _facts(release.change) not in map(_facts, expected):
            raise NotPrivate(
                f"{release.name}: its change is not that of one record of the model's domain"
            )
    else:
        raise NotPrivate(f"the release of the class {type(release).__name__} is not known")


def _facts(change: object) -> object:
    """Return what a file holds of a change, for comparisons."""
    if isinstance(change, Change):  # also a Sensitivity
        return change.ball, change.radius, change.neighbors
    if isinstance(change, FirstChange):
        own = change.sums
        sums = own.columns, own.squares, own.factor, own.is_counted, own.blocks
        return change.layout, change.neighbors, sums
    return change


def _expected(release: NoisySum, design: Design, public: Public) -> Sequence[object] | None:
    """Return the changes that a release of this name can have, or None if they do not follow."""
    domain, relation = design.domain, public.relation
    change, ball = release.change, getattr(release.change, "ball", None)
    match release.name:
        case "scaling" | "scales" | "mean" if isinstance(change, Change):
            return _of_columns(ball, domain, relation)
        case "scaling" if isinstance(change, FirstChange):
            layout = layout_of(domain)
            sums = first_sums(layout, None if relation == "add_remove" else 0)
            return [FirstChange(layout, sums, relation)]
        case "cross":
            return [cross_change(layout_of(domain), relation)]
        case "moments" if isinstance(change, RowsWithin):
            layout = layout_of(domain)
            return [RowsWithin(layout, greatest_square(layout), relation)]
        case "moments":
            balls = moment_ball(domain, relation), mean_ball(relation)
            return [Change(own, neighbors=relation) for own in balls]
        case "limits":
            ends = tables.counted_ends(domain, domain.target_bounds is not None)
            return [Change(LpBall(max(len(ends), 1), p=math.inf), 1.0, relation)]
        case "sizes" | "other sizes":
            most = domain.n_numbers + 2 * (domain.target_bounds is not None)
            return [tables.size_counts(m, relation) for m in range(1, most + 1)]
    return _of_tables(release, domain, relation)


def _of_tables(release: NoisySum, domain: Domain, relation: str) -> Sequence[object] | None:
    """Return the changes that a release of a regression table can have."""
    layout, ball = tables.whole_layout(domain), getattr(release.change, "ball", None)
    match release.name:
        case "coordinates":
            return [tables.changes(tables.curvature_layout(domain), 1, relation)[1]]
        case "scores" | "curvatures":
            return [tables.changes(layout, 1, relation)[release.name == "curvatures"]]
        case "numerators" | "denominators" | "squares" if ball is not None:
            m = min(ball.dim, domain.n_encoded + 1)
            squares = [
                tables.changes(layout, m, relation)[2],
                tables.squares_of_gaussian(m, relation),
            ]
            return squares if release.name == "squares" else [tables.bounded_sums(m, relation)]
    return None


def _of_columns(ball: object, domain: Domain, relation: str) -> list[object]:
    """Return the change of sums of columns, of twice their squares, and of counts of levels."""
    parts = ball.balls if isinstance(ball, ProductBall) and ball.index is None else (ball,)
    numbers, levels = parts[0], parts[1:]
    curves = sum(table is not None for table in domain.block_tables)
    k, most = getattr(numbers, "n_numbers", 0), domain.n_numbers + curves + 1  # with the target
    if not 0 < k <= most or type(numbers) is not SquaresBall:
        return []
    n, columns = None if relation == "add_remove" else 0, tuple(range(k))
    blocks = tuple(own for own in domain.blocks if own.stop > own.start) if levels else ()
    return [ColumnSums(columns, n, columns, blocks=blocks).change(relation)]
