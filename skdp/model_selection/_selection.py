"""The theorem of a private search: its choice, its budgets, and its guarantee.

Theorems 1 and 6 of private_selection.md are sampled exactly. Scores are integers, rates are
fractions, and every draw is made of fair bits. Nothing is rounded, so the computer draws from
exactly the distributions of the theorems. A dry run finds errors of fits and scores before the
budget is spent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline

from skdp._checks import fail
from skdp._identity import is_ours
from skdp._publish import publish
from skdp.linear_model.validation import RECORDS, UNSEEN, chosen_publicly, numbered
from skdp.model_selection._candidates import (
    PlannedFit,
    SearchTask,
    declared_labels,
    fit_to,
    private_step,
)
from skdp.privacy import BudgetExceeded, Guarantee, Ledger
from skdp.privacy.conversions import gaussian_epsilon, gaussian_mu, pure_of_mu
from skdp.privacy.ledger import Budget
from skdp.privacy.losses import GaussianLoss, PairLoss
from skdp.privacy.profile import equivalents
from skdp.privacy.rounding import as_decimal, float_below, subtract
from skdp.trusted.certify import certify
from skdp.trusted.releases import NotPrivate, PrivateChoice, Public, Spent

# A ceiling below every budget.
_NOTHING = 5e-324
_N_RECORDS = 10
# Dry runs for one plan, and the factor by which the mu of a fit may exceed its goal at first.
_TRIES, _MOST_EXCESS = 3, 1.2
_PUBLIC = (
    "scores, steps and other parts from outside skdp treat records separately and store nothing",
    UNSEEN,
)
_STEPS = (
    "the steps before the model learn nothing from the data; the types of columns, on which they"
    " may depend, are declared and not inferred from cells"
)
_LABELS = "which labels occur in y is public: it was read off y, because no labels were declared"
_SEEDED = "the noise came from random_state and not from the operating system"


# The choice


@dataclass(frozen=True)
class SearchChoice:
    """How one of the candidates is chosen by their scores.

    By permute-and-flip at ``amount`` or, if ``mus`` are known, by the exponential mechanism whose
    log probabilities change within an interval of length ``amount``. Then the fits, the choice
    and the last fit are private by Gaussian DP: the first two with the first of ``mus``.
    """

    amount: float
    mus: tuple[float, float] | None = None

    @property
    def name(self) -> str:
        """The mechanism."""
        return "permute-and-flip" if self.mus is None else "exponential mechanism"

    def draw(self, scores: Sequence[int], sensitivity: int, rng: np.random.Generator) -> int:
        """Return the position of the chosen score."""
        # One score may increase and another one decrease.
        rate = Fraction(as_decimal(self.amount)) / (2 * sensitivity)
        choose = permute_and_flip if self.mus is None else exponential_mechanism

        def draw(generator: np.random.Generator) -> int:
            return choose(scores, rate, generator)

        release = PrivateChoice(self.name, self.amount, theorem="private_selection.md")
        return publish(release, list(scores), draw, rng, scale=1 / rate)


@dataclass(frozen=True)
class PrivateFits:
    """Fits to disjoint parts of the records, and a choice by scores on one more part.

    A record is in one part, which is drawn without looking at it. So the privacy loss is at most
    the greatest of those of the fits, each of at most ``budget``, and of the choice. With ``mu``
    they are private by Gaussian DP.
    """

    name: str
    budget: Budget
    neighbors: str
    unit: str
    mu: float | None = None
    choice: SearchChoice | None = None
    theorem: ClassVar[str] = "private_selection.md, Theorems 1 to 6"
    publication: ClassVar[None] = None  # the fits publish their own values

    @property
    def description(self) -> str:
        """What is published."""
        return self.name

    def spent(self, public: Public) -> Spent:
        """Return the privacy loss."""
        if (self.neighbors, self.unit) != (public.relation, public.unit):
            raise NotPrivate(f"{self.name}: the fits are private under another relation or unit")
        epsilon, delta = self.budget.epsilon, self.budget.delta
        # An interval of length 2 e is e-private, and by Gaussian DP with the mu of this e.
        most = epsilon if self.mu is None else 2 * pure_of_mu(self.mu)
        if self.choice is not None and self.choice.amount > most:
            raise NotPrivate(f"{self.name}: the choice spends {self.choice.amount:.9g}")
        if self.mu is not None:
            return Spent(math.inf, ((GaussianLoss(self.mu), 1),))
        return Spent(math.inf if delta else epsilon, ((PairLoss(epsilon, delta), 1),))


def split(whole: Budget, share: float) -> tuple[Budget, Budget]:
    """Return the rest and the share of a budget; as decimals they sum to at most the whole."""
    amounts = whole.epsilon, whole.delta
    first = [(1 - share) * value for value in amounts]
    pairs = zip(amounts, first, strict=True)
    rest = [float_below(subtract(value, as_decimal(part))) for value, part in pairs]
    return Budget(*first), Budget(*rest)


def permute_and_flip(scores: Sequence[int], rate: Fraction, rng: np.random.Generator) -> int:
    """Return the position of a score, chosen by permute-and-flip (McKenna & Sheldon 2020).

    Candidates are visited in a random order, and each is accepted with probability
    ``exp(-rate (greatest - score))``; the first accepted one is returned. This is the distribution
    of the argmax of scores plus exponential noise of this rate (private_selection.md, Theorem 1).
    For a choice at epsilon the rate is epsilon / (2 D) if one record changes each score by at most
    D.
    """
    greatest = max(scores)
    for place in rng.permutation(len(scores)):
        if bernoulli_exp(rate * (greatest - scores[place]), rng):
            return int(place)
    raise AssertionError("the greatest score is always accepted")


def exponential_mechanism(scores: Sequence[int], rate: Fraction, rng: np.random.Generator) -> int:
    """Return the position of a score with probability in proportion to ``exp(rate score)``.

    If one record changes each score by at most D, the log probabilities change by numbers from an
    interval of length 2 D rate (private_selection.md, Theorem 6).
    """
    greatest = max(scores)
    while True:
        place = uniform_below(len(scores), rng)
        if bernoulli_exp(rate * (greatest - scores[place]), rng):
            return place


def bernoulli_exp(exponent: Fraction, rng: np.random.Generator) -> bool:
    """Return True with probability exactly ``exp(-exponent)``, for an exponent >= 0.

    Canonne, Kamath & Steinke (2020), Algorithm 1.
    """
    whole, rest = divmod(exponent.numerator, exponent.denominator)
    # One draw for each unit of the exponent; it ends with the first False, after 1.6 on average.
    return all(_bernoulli_exp_below_one(1, 1, rng) for _ in range(whole)) and (
        _bernoulli_exp_below_one(rest, exponent.denominator, rng)
    )


def _bernoulli_exp_below_one(x: int, per: int, rng: np.random.Generator) -> bool:
    """Return True with probability exp(-x / per), for a quotient in [0, 1].

    Let A_k be True with probability x / (per k). The first k with A_k False is odd with this
    probability. Integers are used because fractions would be reduced in every step.
    """
    k = 1
    while uniform_below(per * k, rng) < x:
        k += 1
    return k % 2 == 1


def uniform_below(n: int, rng: np.random.Generator) -> int:
    """Return a uniform integer from 0 to ``n - 1``; n may have any size."""
    bits = (n - 1).bit_length()
    spare = -bits % 8
    while True:
        found = int.from_bytes(rng.bytes((bits + spare) // 8), "big") >> spare
        if found < n:
            return found


# The budgets, and a dry run


def gaussian_parts(
    task: SearchTask, whole: Budget, share: float
) -> tuple[SearchTask, SearchChoice, Budget] | None:
    """Return fits, choice and last budget whose squared mu add up, or None if one is too great.

    The search is then private by Gaussian DP (private_selection.md, Theorem 6). A fit has about
    its goal's mu if its noise is Gaussian and calibrated to the epsilon of that mu at all of delta.
    If it has a little more, it is asked for less.
    """
    mu = gaussian_mu(whole.epsilon, whole.delta) * (1 - 1e-9)
    goals = np.array([math.sqrt(1 - share), math.sqrt(share)]) * mu
    asked = goals
    for _ in range(_TRIES):
        own, last = (
            Budget(gaussian_epsilon(float(one), whole.delta), whole.delta) for one in asked
        )
        if not min(own.epsilon, last.epsilon) > 0:
            return None
        fits = tuple(replace(fit, budget=own) for fit in task.fits)
        planned = replace(task, fits=fits)
        found = np.array(dry_run(planned, last))
        if (found <= goals).all():
            width = 2 * pure_of_mu(float(goals[0]))
            return planned, SearchChoice(width, (float(goals[0]), float(goals[1]))), last
        if not (found <= _MOST_EXCESS * goals).all():
            return None
        asked = asked * np.minimum(1.0, goals / found * (1 - 1e-3))
    return None


def dry_run(task: SearchTask, last: Budget) -> tuple[float, float]:
    """Raise the errors of all fits, and of the score, without drawing noise.

    Returns the greatest mu of the fits, and of the last fits, inf if one is not known.

    Each candidate is fitted to its own records, and to all records with the budget ``last`` of
    the last fit. A candidate without a ledger is not fitted; the guarantee lists its privacy as an
    assumption.
    """
    rows, found = np.arange(len(task.y)), []
    for planned in task.fits:
        for fit in (planned, PlannedFit(planned.candidate, last, rows, 1.0)):
            model, mu = task.model(fit), math.inf
            if _has_ledger(model):
                private_step(model).set_params(ledger=Ledger(_NOTHING))
                mu = _try_fit(task, fit, model)
            found.append(mu)
    _try_score(task, last)
    return max(found[::2]), max(found[1::2])


def _has_ledger(model: Any) -> bool:
    return "ledger" in private_step(model).get_params()


def _try_fit(task: SearchTask, fit: PlannedFit, model: Any) -> float:
    """Fit a model with an empty ledger, which stops it after its checks and before any noise.

    Returns the mu of the guarantee that it asks for, inf if none is known.
    """
    try:
        fit_to(model, *task.records(fit.rows))
    except BudgetExceeded as error:
        asked = error.asked
    else:
        raise fail("estimator", "charge its ledger before it draws noise", type(model))
    if asked is None:
        return math.inf
    neighbors, given = task.candidates.neighbors, fit.budget
    is_within = asked.epsilon <= given.epsilon and asked.delta <= given.delta
    is_alike = (asked.neighbors, asked.unit) == (neighbors, task.unit)
    if not (is_within and is_alike and (task.is_seeded or asked.holds)):
        rule = f"ask for a guarantee that holds, of at most {given}, for one {task.unit}"
        raise fail("every candidate", f"{rule} under {neighbors!r}", str(asked))
    # What other estimators claim beyond epsilon and delta is not used.
    known = equivalents(asked.epsilon, asked.delta, asked.losses).square
    return math.sqrt(known) if is_ours(private_step(model)) else math.inf


def _try_score(task: SearchTask, budget: Budget) -> None:
    """Try a user's score on a model of the first candidate.

    No private data are used: the model is fitted to artificial records that are drawn from the
    declared domain, with noise from a fixed seed. Nothing is tried if no domain declares the
    input, if the model has no ledger, since it may charge another one, or if it cannot be fitted
    to these records.
    """
    model, candidates = task.candidates.model(0, budget, 1.0, 0), task.candidates
    first = model
    while isinstance(first, Pipeline):
        first = first.steps[0][1]
    domain = getattr(first, "domain", None)
    if task.score.is_built_in or domain is None or not _has_ledger(model):
        return
    y = np.linspace(*(candidates.target_bounds or (-1.0, 1.0)), _N_RECORDS)
    if is_classifier(candidates.private):
        y = np.resize(candidates.labels, max(_N_RECORDS, 2 * len(candidates.labels)))
    X = domain.sample(len(y), 0)
    if hasattr(task.X, "iloc"):
        columns = list(task.X.columns)
        X = X[columns] if hasattr(X, "iloc") else type(task.X)(X, columns=columns)
    X = X if hasattr(task.X, "iloc") else np.asarray(X)
    if "callback" in private_step(model).get_params():
        private_step(model).set_params(callback=None)
    try:
        fit_to(model, X, y, None if task.persons is None else np.arange(len(y)))
    except Exception:
        return
    try:
        task.score.total(model, X, y)
    except Exception as error:
        error.add_note("The score was tried on artificial records, drawn from the domain.")
        raise


# The guarantee


def guarantee_of(
    task: SearchTask, choice: SearchChoice, last: Budget | None, whole: Budget
) -> Guarantee:
    """Return the guarantee of a whole search."""
    candidates = task.candidates
    tried = [private_step(model) for model in candidates.models]
    chosen = "the labels, the candidates and all parameters"
    domains = [chosen_publicly(_domain_of(model), chosen) for model in candidates.models]
    # Without repetitions, in the order of the candidates.
    assumptions = [*dict.fromkeys(domains), RECORDS[task.unit], *_PUBLIC]
    if isinstance(candidates.estimator, Pipeline):
        assumptions.append(_STEPS)
    if candidates.classes is not None:
        assumptions.append(_LABELS)
    elif candidates.labels is not None:
        assumptions += numbered(declared_labels(candidates.private), candidates.labels)
    others = sorted({type(one).__name__ for one in tried if not is_ours(one)})
    assumptions += [
        f"the fits of {name} are private at the budget they are given" for name in others
    ]
    names = " or ".join(sorted({type(one).__name__ for one in tried}))
    mechanism = f"private search over {len(candidates)} candidates of {names}"
    public = Public(
        whole.epsilon,
        whole.delta,
        candidates.neighbors,
        task.unit,
        assumptions=tuple(assumptions),
        void_because=(_SEEDED,) if task.is_seeded else (),
    )
    mechanism += f": fits to disjoint parts of the records, {choice.name}"
    return certify(releases_of(task, choice, last), public, mechanism)


def releases_of(task: SearchTask, choice: SearchChoice, last: Budget | None) -> list[PrivateFits]:
    """Return the releases of a search: the fits with the choice, and the last fit."""
    about = task.candidates.neighbors, task.unit
    mus = choice.mus or (None, None)
    fits = PrivateFits("fits and choice", task.fits[0].budget, *about, mus[0], choice)
    if last is None:
        return [fits]
    return [fits, PrivateFits("last fit", last, *about, mus[1])]


def _domain_of(model: Any) -> Any:
    """Return the domain of a candidate, or that of an encoder before it if it was estimated."""
    steps = [step for _, step in model.steps] if isinstance(model, Pipeline) else []
    domains = [getattr(step, "domain", None) for step in (private_step(model), *steps)]
    estimated = (own for own in domains if getattr(own, "estimated", None) is not None)
    return next(estimated, domains[0])


def restate(model: Any, whole: Guarantee) -> None:
    """Replace, in place, the guarantees of a chosen model by that of the search.

    Its own guarantees are those of a single fit. This is less than the cost of the model, which
    was found by the search. Its attributes ``releases_`` and ``public_`` stay those of this fit.
    """
    model.guarantee_ = whole
    if hasattr(model, "noise_"):  # that of another package cannot be restated
        model.noise_ = replace(model.noise_, guarantee=whole) if is_ours(model.noise_) else None
    if hasattr(model, "moments_"):
        model.moments_ = replace(model.moments_, noise=model.noise_)
