"""What a budget buys, before it is spent: a fit and an inference of artificial tables."""

from __future__ import annotations

import math
import textwrap
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.random import Generator
from sklearn.base import clone

from skdp.domain import Domain
from skdp.domain.columns import Levels, Number, is_missing
from skdp.domain.splines import Spline
from skdp.linear_model._inference.plan import InferencePlan, plan_inference
from skdp.linear_model._shared.task import Task
from skdp.linear_model.validation import sorted_labels
from skdp.privacy import Guarantee
from skdp.privacy.guarantee import guarantee_of
from skdp.trusted.arrays import Array, FloatArray
from skdp.trusted.certify import Line, overview
from skdp.trusted.checks import check_count, check_interval, check_numbers, check_positive, fail
from skdp.trusted.noise import variances
from skdp.trusted.statement import Public

if TYPE_CHECKING:
    from skdp.linear_model._shared.base import PrivateLinearModel

Shares = Mapping[str, Sequence[float]] | None
# The standard deviations of numbers and of residuals over the width of the bounds.
DEVIATION = 1 / 8


@dataclass(frozen=True, eq=False)
class Plan:
    """What a budget buys on artificial tables; ``print`` shows it. It depends on no data.

    Attributes
    ----------
    names : tuple of str
        The coefficients of the table, as in `Inference`; empty if the fit has the whole budget.
    widths, ratios, unbounded : ndarray of shape (n_names,)
        Median widths of the 95 % confidence intervals, medians of the standard errors over their
        sampling parts, and shares of the artificial tables with an unbounded interval.
    error : dict of float
        Median errors of predictions of the private model ("private"), and of the mean or the most
        frequent label ("trivial"): root mean squares, or shares of wrong labels.
    guarantees, releases : tuple of Guarantee, tuple of Line
        Those of the fit and of the inference; guarantees add up. See :func:`skdp.trusted.overview`.

    Examples
    --------
    >>> from skdp import Domain, DPLinearRegression
    >>> domain = Domain({"hours": (0, 10)}, target=(0, 30))
    >>> plan = DPLinearRegression(epsilon=1.0, domain=domain).plan(5000, repeats=5)
    >>> print(plan.names, plan.unbounded)
    ('intercept', 'hours') [0. 0.]
    """

    names: tuple[str, ...]
    widths: FloatArray
    ratios: FloatArray
    unbounded: FloatArray
    error: dict[str, float]
    guarantees: tuple[Guarantee, ...]
    releases: tuple[Line, ...]

    def __str__(self) -> str:
        columns = self.names, self.widths, self.ratios, self.unbounded
        wide = max(map(len, ("", *self.names)))
        lines = [f"{'':{wide}}      width   ratio  unbounded"] if self.names else []
        for name, width, ratio, share in zip(*columns, strict=True):
            lines.append(f"{name:{wide}}  {width:9.4g}  {ratio:6.2f}  {share:9.0%}")
        error = ", ".join(f"{name} {value:.4g}" for name, value in self.error.items())
        spent = zip(("fit", "infer"), self.guarantees, strict=False)
        calls = [f"{call} epsilon = {g.epsilon:g}, delta = {g.delta:g}" for call, g in spent]
        parts = [f"{r.name} {r.epsilon:.2g}" if r.epsilon else r.name for r in self.releases]
        notes = f"Error: {error}.", f"{'; '.join(calls)}.", f"Releases: {', '.join(parts)}."
        return "\n".join([*lines, *(line for note in notes for line in textwrap.wrap(note, 78))])


def plan(
    self: PrivateLinearModel,
    n: int,
    *,
    effects: Sequence[str] | None = None,
    inference: float = 0.8,
    shares: Shares = None,
    correlation: float = 0.3,
    residual: float | None = None,
    repeats: int = 20,
    random_state: int | None = 0,
) -> Plan:
    """Return what the budget buys: the expected widths of intervals and errors of predictions.

    Artificial tables are drawn from public guesses, and ``fit`` and ``infer`` run on each of them.
    No data are read and no ledger is charged. Numbers have a standard deviation of an eighth of
    the width of their bounds, and the second of two labels has a share of a quarter. A warning that
    ``infer`` would give is given here, too.

    Parameters
    ----------
    n : int >= 1
        Number of records, or of persons.
    effects : list of str, default=None
        As in :meth:`infer`.
    inference : float in [0, 1), default=0.8
        The share of epsilon for ``infer``; the fit has the rest. Each has half of delta. With 0 the
        fit has everything, and the plan has errors of predictions only.
    shares : dict of column to shares, default=None
        The shares of the levels of columns, in their order. By default each level is a third as
        frequent as the one before it, or a hundredth as frequent as the first.
    correlation : float in [0, 1), default=0.3
        Of each two columns. Levels are intervals of a number with this correlation.
    residual : float > 0, default=None
        The standard deviation of a target's residuals, and the mean of counts; by default an eighth
        of its width.
    repeats : int >= 1, default=20
        Number of artificial tables.
    random_state : None or int, default=0
        Seed of the tables and of the noise on them.

    Returns
    -------
    Plan
        Print it.
    """
    n, repeats = check_count("n", n), check_count("repeats", repeats)
    inference = check_interval("inference", inference, 0.0, 1.0, closed="left")
    correlation = check_interval("correlation", correlation, 0.0, 1.0, closed="left")
    self._check_parameters()
    least = 1e-10 / min(inference or 1.0, 1 - inference)
    check_interval("epsilon", self.epsilon, least, 1e12, remedy="Fit and table have parts of it.")
    if random_state is not None:
        random_state = check_count("random_state", random_state, least=0)
    if not isinstance(shares, Mapping | None):
        raise fail("shares", "be a dict of columns and the shares of their levels", shares)
    if self.rows_per_person != 1:
        rule = "be 1: a plan for several rows of a person is not available"
        remedy = "Plan with clone(model).set_params(rows_per_person=1)."
        raise fail("rows_per_person", rule, self.rows_per_person, remedy)
    if self.max_weight is not None:
        remedy = "Plan with clone(model).set_params(max_weight=None), and the sum of the weights"
        remedy += " over max_weight as n."
        raise fail("max_weight", "be None for a plan", self.max_weight, remedy)
    domain, fit_delta = self.domain, self.delta / 2 if inference else self.delta
    classes, labels = getattr(self, "classes", None), getattr(domain, "target_labels", None)
    if classes is not None and {*sorted_labels(classes).tolist()} != {*(labels or ())}:
        remedy = 'Declare them there: Domain({"age": (17, 90)}, target=["no", "yes"]).'
        raise fail("classes", "be the labels of the domain for a plan", classes, remedy)
    if domain is None or domain.target is None:
        remedy = 'Write domain=Domain({"age": (17, 90)}, target=(0, 100)).'
        raise fail("domain", "declare the columns and the target for a plan", None, remedy)
    low, high = domain.target_bounds or (0.0, 1.0)
    spread = DEVIATION if residual is None else check_positive("residual", residual) / (high - low)
    facts = {"ledger": None, "epsilon": self.epsilon * (1 - inference), "delta": fit_delta}
    budget = {"epsilon": self.epsilon * inference, "delta": self.delta / 2, "effects": effects}
    names: tuple[str, ...] = ()
    widths = ratios = np.empty(0)
    results = []
    for seed in np.random.SeedSequence(random_state).spawn(repeats):
        rng = np.random.default_rng(seed)
        X, y = population(domain, n, shares, correlation, spread, rng, self._is_log)
        seeds = rng.integers(2**31, size=2).tolist()
        model = clone(self).set_params(**facts, random_state=seeds[0]).fit(X, y)
        calls = [(model.releases_, model.public_)]
        if inference:
            table = model.infer(X, y, **budget, random_state=seeds[1])
            names, calls = table.names, [*calls, (table.releases, table.public)]
            widths = np.diff(table.conf_int(), axis=1)[:, 0]
            ratios = table.std_error / table.sampling_error
            ratios[table.is_hidden] = np.inf
        if domain.target_labels is None:
            error = [np.sqrt(np.mean((y - value) ** 2)) for value in (model.predict(X), y.mean())]
        else:
            error = [np.mean(y != label) for label in (model.predict(X), domain.target_labels[0])]
        results.append((widths, ratios, error))
    widths, ratios, errors = (np.array(part) for part in zip(*results, strict=True))
    # The noise of a fit comes from the operating system.
    calls = [(releases, replace(public, void_because=())) for releases, public in calls]
    return Plan(
        names,
        *(np.median(widths, axis=0), np.median(ratios, axis=0), np.isinf(widths).mean(axis=0)),
        dict(zip(("private", "trivial"), np.median(errors, axis=0).tolist(), strict=True)),
        tuple(guarantee_of(*call) for call in calls),
        tuple(line for call in calls for line in overview(*call)),
    )


def population(
    domain: Domain,
    n: int,
    shares: Shares,
    correlation: float,
    spread: float,
    rng: Generator,
    is_log: bool = False,
) -> tuple[Any, Array]:
    """Return an artificial table, whose columns follow correlated normal numbers, and its target.

    `Domain.sample` leaves cells empty, and draws balls and blocks. Rare levels have small effects.
    """
    X, common, given = domain.sample(n, rng), rng.normal(size=n), dict(shares or {})
    for column, read in [] if domain.is_ball else domain._layout.declared:
        name = domain._labels[read.start]
        latent = math.sqrt(correlation) * common + math.sqrt(1 - correlation) * rng.normal(size=n)
        if isinstance(column, Levels):
            usual = np.maximum(3.0 ** -np.arange(k := len(column.levels)), 0.01)
            sums = np.cumsum(check_numbers("shares", given.pop(name, usual)))
            if len(sums) != k or not (np.diff(sums, prepend=0.0) >= 0).all() or not sums[-1] > 0:
                raise fail(f"the shares of {name!r}", f"be {k} numbers >= 0")
            places = np.searchsorted(np.quantile(latent, sums[:-1] / sums[-1]), latent)
            values: Array = np.fromiter((column.levels[j] for j in places), object)
        elif isinstance(column, Number | Spline):
            values = np.interp(0.5 + DEVIATION * latent, [0, 1], [column.lower, column.upper])
        else:
            continue
        at: Any = name if hasattr(X, "columns") else (slice(None), read.start)
        values[[is_missing(cell) for cell in X[at]]] = None  # NaN in numbers
        X[at] = values
    if given:
        raise fail("shares", "be those of columns of levels", sorted(map(str, given)))
    rows = domain.encode(X)
    eta = (rows - rows.mean(axis=0)) / np.maximum(rows.std(axis=0), 2 * DEVIATION)
    eta = eta @ rng.choice([-1.0, 1.0], eta.shape[1])
    eta /= eta.std() or 1.0
    if domain.target_bounds is not None:
        share = 0.5 + eta / 10 + spread * rng.normal(size=n)
        if is_log:  # costs: their mean is the spread, and standard deviations are as large
            share = np.exp(eta / 2 - 1 / 8) * rng.exponential(spread, n)
        return X, np.interp(share, [0, 1], domain.target_bounds)
    latent, labels = eta + rng.logistic(size=n), np.array(list(domain.target_labels or ()))
    ends = [0.75] if len(labels) == 2 else np.arange(1, len(labels)) / len(labels)
    return X, labels[np.searchsorted(np.quantile(latent, ends), latent)]


# If n is below HIDING k deviations of the noise in the denominators of k coefficients, the noise
# probably hides most of them: in 96 % of 129 simulated tables with the warning, and in 6 % of 71
# others. Its epsilon was enough in 95 %. See `inference_rules` in examples/benchmarks/rules.
HIDING, CLEAR = 3.0, 2.0


def warn_if_hidden(plan: InferencePlan, public: Public, task: Task, *facts: Any) -> None:
    """Warn if most intervals will probably be unbounded; it depends on public facts only."""
    if task.n_assumed is None:
        return
    scale = HIDING * len(plan.factor) / task.n_assumed
    hidden = scale * math.sqrt(float(variances(plan.denominators)[0]))
    if hidden < 1:
        return
    # The noise is about proportional to 1 / epsilon. Numbers are rounded up to two digits.
    enough = CLEAR * hidden * np.array([task.n_assumed, public.epsilon])
    digit = 10.0 ** (np.floor(np.log10(enough)) - 1)
    n, epsilon = np.ceil(enough / digit) * digit
    remedy = f"{n:,.10g} {public.unit.replace('row', 'record')}s or epsilon={epsilon:.10g}"
    if task.delta < 1e-6:
        other = plan_inference(replace(task, delta=1e-6), *facts).denominators
        remedy += " or delta=1e-6" * (CLEAR * scale * math.sqrt(float(variances(other)[0])) < 1)
    text = (
        "Expect unbounded intervals: the noise will probably hide most coefficients. Probably"
        f" enough: {remedy}. The method plan shows what a budget buys. To stop before the budget is"
        " spent, turn this warning into an error."
    )
    warnings.warn(text, UserWarning, stacklevel=3)
