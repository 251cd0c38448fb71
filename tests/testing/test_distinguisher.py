"""The strong attacker: it reads all that a fit shows, of every estimator and mechanism.

It knows both tables. False alarms: 1e-6 for each pair of tables.
"""

import itertools
import math
import warnings

import numpy as np
import pytest
from attacker import check_attack, check_audit, check_independence, check_messages
from inner_fits import GRAM_BITS, exact_gram
from inner_fits import gram_module as _gram
from inner_moments import NAMES as MOMENT_NAMES
from inner_moments import RowScaler, ScaledMoments, Scaler

from skdp import (
    Domain,
    DPCoordinateDescentClassifier,
    DPCoordinateDescentRegressor,
    DPHuberRegressor,
    DPLinearRegression,
    DPLogisticRegression,
)
from skdp.mechanisms.independent import MECHANISMS
from skdp.model_selection import PrivateSearchCV
from skdp.rows import MemoryRows
from skdp.rows.persons import WHOLE, Members, Shares
from skdp.trusted.noise import KNormNoise

EPSILONS, COLUMNS = (0.004, 0.1, 1.0), (3, 20, 100)
RECORDS, DELTA = 40, 1e-6
PERTURBED = ("auto", "l1", "l2", "linf", "hull", "laplace", "logistic", "gaussian", "elliptic")
NAMES = {
    DPLogisticRegression: PERTURBED,
    DPHuberRegressor: PERTURBED,
    DPLinearRegression: MOMENT_NAMES,
    DPCoordinateDescentClassifier: MECHANISMS,
    DPCoordinateDescentRegressor: MECHANISMS,
}
CLASSIFIERS = (DPLogisticRegression, DPCoordinateDescentClassifier)


def fits_for(epsilon):
    """How many fits of each table show a feature that tells them apart in every fit."""
    return 44 if epsilon > 0.5 else 26


def tables(columns, classes=False):
    """Two tables whose sums differ as much as they can, and in their last bits too."""
    rng = np.random.default_rng(columns)
    X = rng.integers(-(2**20), 2**20, (RECORDS, columns)) / 2.0**20
    y = rng.integers(-(2**20), 2**20, RECORDS) / 2.0**20
    X[0] = 1 - (2 * rng.integers(2**10, size=columns) + 1) / 2.0**20
    other = X.copy()
    other[0] = 2 * rng.integers(2**10, size=columns) / 2.0**20 - 1
    y = np.where(y > 0, "a", "b") if classes else y
    return (X, y), (other, y)


def released(model):
    """Moments in units of 2^-40, as anybody can read them off the fitted model."""
    moments, plan = model.moments_, model._plan(model._design, RECORDS, 1)
    found = moments.layout.statistic(moments.gram)
    if isinstance(plan, ScaledMoments):
        found = moments.released
    return [round(v * 2.0**GRAM_BITS) for v in found.tolist()]


def noiseless(model, X, y):
    """The same of a table without noise."""
    moments, plan, domain = model.moments_, model._plan(model._design, RECORDS, 1), model.domain
    place = None
    if isinstance(plan, ScaledMoments):
        columns = Scaler(moments.centre[1:], moments.scale[1:])
        place = RowScaler(columns, plan.factor).place
    gram = exact_gram(MemoryRows(domain, X, y), place)
    if len(gram) != moments.layout.n_rows:
        gram = gram[np.ix_([0, -1], [0, -1])]
    i, j = moments.layout.pairs.T
    scale, shift = (v.astype(int) for v in (moments.layout.scale, moments.layout.shift))
    return scale * gram[i, j] - shift * gram[0, 0]


@pytest.fixture
def planned_once(monkeypatch):
    """Plan the fits of one battery once: a plan is of public things, which do not change."""
    for kind in NAMES:
        plans, plan = {}, kind._plan

        def kept(self, design, n, n_models, unit="row", plans=plans, plan=plan):
            key = (repr(self), n, n_models, unit)
            if key not in plans:
                plans[key] = plan(self, design, n, n_models, unit)
            return plans[key]

        monkeypatch.setattr(kind, "_plan", kept)


def battery(kind, mechanism, epsilon, columns):
    """Attack one estimator."""
    estimator = kind(epsilon=epsilon, delta=DELTA, mechanism=mechanism)
    moments = kind is DPLinearRegression
    check_attack(
        estimator,
        tables(columns, kind in CLASSIFIERS),
        fits_for(epsilon),
        released if moments else None,
        noiseless=noiseless if moments else None,
    )


QUICK = [
    (DPLogisticRegression, "auto", 0.1, 3),
    (DPHuberRegressor, "gaussian", 0.004, 20),
    (DPLinearRegression, "matrix", 0.1, 20),
    (DPCoordinateDescentClassifier, "laplace", 0.1, 3),
    (DPCoordinateDescentRegressor, "auto", 0.004, 3),
    (DPLinearRegression, "gaussian", 0.004, 3),
    (DPLinearRegression, "hull", 0.004, 3),
]
# Every name with every epsilon and every number of columns; "auto" with all pairs of them. What
# is tested quickly is not tested again.
ALL = [
    (kind, name, epsilon, columns)
    for kind, names in NAMES.items()
    for number, name in enumerate(names)
    for (i, epsilon), (j, columns) in itertools.product(enumerate(EPSILONS), enumerate(COLUMNS))
    if name == "auto" or (i + j + number) % 3 == 0
    if (kind, name, epsilon, columns) not in QUICK
]


def told(case):
    kind, name, epsilon, columns = case
    return f"{kind.__name__}-{name}-{epsilon:g}-{columns}"


@pytest.mark.rest_is_slow(5)
@pytest.mark.parametrize("case", QUICK, ids=told)
def test_nothing_tells_tables_apart(case, planned_once):
    battery(*case)


@pytest.mark.slow("hundreds of fits of every mechanism")
@pytest.mark.parametrize("case", ALL, ids=told)
def test_nothing_tells_tables_apart_whatever_the_mechanism(case, planned_once):
    battery(*case)


def chosen(search):
    return np.append(search.best_estimator_.coef_, search.best_estimator_.intercept_)


SEARCHES = [
    (0.1, 3),
    *(
        pytest.param(*case, marks=pytest.mark.slow("more cases of the same attack"))
        for case in itertools.product(EPSILONS, COLUMNS)
        if case != (0.1, 3)
    ),
]


@pytest.mark.parametrize(("epsilon", "columns"), SEARCHES)
def test_a_search_tells_nothing_more(epsilon, columns, planned_once):
    model = DPLogisticRegression(domain=Domain.unit_box(columns, target=["a", "b"]))
    grid = {"regularization": [1e9, 1.0]}
    search = PrivateSearchCV(model, grid, epsilon=epsilon)
    check_attack(search, tables(columns, True), fits_for(epsilon), chosen)


# Twins: the attacker must catch them


def old_on_lattice(noise, rng):
    """Bits below the last one of a float, taken from the exponent of the noise alone."""
    missing = np.frexp(noise)[1] - (53 - GRAM_BITS)
    coarse = [math.floor(v) for v in np.ldexp(noise, GRAM_BITS).tolist()]
    drawn = [int(rng.integers(2 ** int(m))) if m > 0 else 0 for m in missing]
    return np.array([c + bits for c, bits in zip(coarse, drawn, strict=True)], dtype=object)


def old_release(noise, exact, unit, rng):
    """Integers with noise on a lattice that is finer than the noise's own grid."""
    exact = exact // 2 ** (-GRAM_BITS - unit)  # whole rows: multiples of 2^-40
    layout = noise.layout
    plus, minus = (
        rng.standard_normal((2, layout.n_rows, layout.n_rows + 1))
        * np.sqrt(0.5 / noise.precision)[:, None]
    )
    drawn = layout.statistic(plus @ plus.T - minus @ minus.T)
    return np.array([int(m) / 2**GRAM_BITS for m in exact + old_on_lattice(drawn, rng)])


OLD = [(0.004, 20), (0.1, 40), (1.0, 100)]


@pytest.mark.rest_is_slow(1)
@pytest.mark.parametrize(("epsilon", "columns"), OLD)
def test_a_lattice_finer_than_the_noise_is_caught(epsilon, columns, monkeypatch, planned_once):
    """Differences of Wishart matrices have the grid of the operands."""
    monkeypatch.setattr(_gram, "release_integers", old_release)
    with pytest.raises(AssertionError, match=r"(less table|last bit)"):
        battery(DPLinearRegression, "matrix", epsilon, columns)


class Leaking(DPLogisticRegression):
    """A good release with something beside it that depends on the table."""

    def fit(self, X, y):
        super().fit(X, y)
        self.leak(float(np.asarray(X)[0, 0]) > 0)
        return self


def twin(name, leak):
    """Return an estimator with a leak, which can be pickled."""
    globals()[name] = kind = type(name, (Leaking,), {"leak": leak, "__module__": __name__})
    return kind


def keeping(name, attribute, value):
    return twin(name, lambda self, positive: setattr(self, attribute, value(positive)))


def buried(value):
    """Return a value so deep that only the length of the pickle tells it."""
    for _ in range(12):
        value = [value]
    return value


def dither(self, positive):
    """Write a last bit of the coefficients."""
    self.coef_ = np.round(self.coef_ * 2.0**20) / 2.0**20 + (2.0**-21 if positive else 0.0)


def stamp(self, positive):
    """Nine fits in ten tell, and one does not."""
    self.step_ = int(positive) if np.random.default_rng().random() < 0.9 else 2


def scale(self, positive):
    """Make the scale of the noise depend on the data."""
    self.coef_ = self.coef_ * (1000.0 if positive else 1.0)


def warn(self, positive):
    warnings.warn(f"The first cell is {'above' if positive else 'below'} 0.", stacklevel=2)


Transposes = keeping("Transposes", "path_", lambda p: np.ones((2, 2), order="F" if p else "C"))
NestsIt = keeping("NestsIt", "history_", lambda p: [{"seen": [1.0, {"deep": 2.0 + p}]}])
Keeps = keeping("Keeps", "_kept", lambda positive: positive)
Buries = keeping("Buries", "_deep", lambda positive: buried("no" if positive else "yes"))
Dithers, Stamps = twin("Dithers", dither), twin("Stamps", stamp)
Scales, Warns = twin("Scales", scale), twin("Warns", warn)
TWINS = [Transposes, NestsIt, Keeps, Buries, Dithers, Stamps, Scales]


@pytest.mark.rest_is_slow(7)
@pytest.mark.parametrize("twin", TWINS, ids=lambda kind: kind.__name__)
def test_what_leaks_beside_a_release_is_caught(twin, planned_once):
    estimator = twin(epsilon=0.1, delta=DELTA)
    n_fits = 40 if twin in (Stamps, Scales) else fits_for(0.1)
    with pytest.raises(AssertionError, match="shows which of two neighbours was fitted"):
        check_attack(estimator, tables(3, True), n_fits)


@pytest.mark.rest_is_slow(1)
@pytest.mark.parametrize(("share", "n_fits"), [(0.01, 100), (0.5, 1200)])
def test_too_little_noise_is_caught(share, n_fits, monkeypatch):
    """Five records: the mean alone is released. With its own noise it passes. Seeded."""
    estimator, whole = DPLinearRegression(epsilon=1.5), KNormNoise.rvs
    X, y = np.zeros((5, 2)), np.eye(5)[0]
    check_audit(estimator, ((X, y), (X, -y)), 100, random_state=0)
    monkeypatch.setattr(KNormNoise, "rvs", lambda self, rng: share * whole(self, rng))
    with pytest.raises(AssertionError, match="is not private"):
        check_audit(estimator, ((X, y), (X, -y)), n_fits, random_state=0)


# Two fits under one seed, and fits to invalid tables

RELEASED = {
    DPLogisticRegression: {"bounds_"},
    DPHuberRegressor: {"bounds_"},
    DPLinearRegression: {"moments_", "coef_std_", "coef_corr_", "intercept_std_"},
    DPCoordinateDescentClassifier: {"bounds_", "history_"},
    DPCoordinateDescentRegressor: {"bounds_", "history_"},
}


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
@pytest.mark.parametrize("kind", NAMES)
def test_only_what_is_released_depends_on_the_data(kind, neighbors):
    estimator = kind(neighbors=neighbors)
    check_independence(estimator, RELEASED[kind] | {"coef_", "intercept_"})
    check_messages(estimator)


@pytest.mark.parametrize(
    ("twin", "found"), [(NestsIt, "deep"), (Transposes, "layout"), (Warns, "warnings")]
)
def test_what_depends_on_data_is_caught_by_two_fits(twin, found):
    with pytest.raises(AssertionError, match=found):
        check_independence(twin(), {"coef_", "intercept_", "bounds_", "path_"})


class Counts(DPLogisticRegression):
    def fit(self, X, y):
        self.n_samples_ = len(X)
        return super().fit(X, y)


def test_the_number_of_records_is_private_where_the_relation_says_so():
    released = {"coef_", "intercept_", "bounds_"}
    check_independence(Counts(), released)
    with pytest.raises(AssertionError, match="n_samples_"):
        check_independence(Counts(neighbors="add_remove"), released)


class Quotes(DPLogisticRegression):
    def fit(self, X, y):
        if len(X) == len(y):
            return super().fit(X, y)
        try:
            raise ValueError(f"got {X[1].tolist()}")
        except ValueError:
            raise ValueError("X and y must have one length") from None


def test_a_message_with_a_value_is_caught():
    with pytest.raises(AssertionError, match="a message tells a value"):
        check_messages(Quotes())


# Persons


def of_persons(kind):
    """Return the estimator with the last column as the identifiers of persons."""

    def fit(self, X, y):
        return kind.fit(self, X, y, groups=np.asarray(X)[:, -1])

    return type(f"Persons{kind.__name__}", (kind,), {"fit": fit, "__module__": __name__})


OF_PERSONS = {kind: of_persons(kind) for kind in NAMES}
globals().update({own.__name__: own for own in OF_PERSONS.values()})  # for pickle


def panels(rows, classes):
    """Two panels: a person has one row at a corner, or many rows at the opposite one."""
    rng = np.random.default_rng(0)
    ids = np.repeat(np.arange(RECORDS), rng.integers(1, 4, RECORDS)) / 64
    X = np.column_stack([rng.uniform(-1, 1, (len(ids), 3)), ids])
    y = rng.uniform(-1, 1, len(ids))
    found = []
    for corner, m in ((1.0, 1), (-1.0, rows)):
        own = np.column_stack([np.full((m, 3), corner), np.full(m, 0.99)])
        table, target = np.vstack([X, own]), np.append(y, np.full(m, corner))
        found.append((table, np.where(target > 0, "a", "b") if classes else target))
    return tuple(found)


@pytest.mark.rest_is_slow(3)
@pytest.mark.parametrize("delta", [0.0, DELTA])
@pytest.mark.parametrize("kind", NAMES)
def test_nothing_tells_persons_with_one_row_from_those_with_fifty(kind, delta, planned_once):
    estimator = OF_PERSONS[kind](epsilon=0.1, delta=delta)
    check_attack(estimator, panels(50, kind in CLASSIFIERS), fits_for(0.1))


def test_rows_that_count_fully_are_caught(monkeypatch, planned_once):
    """The twin: each row of a person has the weight 1."""
    monkeypatch.setattr(
        Shares, "members", lambda self, ids: Members(np.arange(len(ids)), np.full(len(ids), WHOLE))
    )
    with pytest.raises(AssertionError, match="is not private"):
        check_attack(OF_PERSONS[DPLogisticRegression](epsilon=1.0), panels(2000, True), 80)
