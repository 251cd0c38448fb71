"""DPLinearRegression's choices, errors and budget."""

import tracemalloc

import numpy as np
import pytest
from poor_tables import TABLES, fit_quietly
from spent import refused
from test_linear import BOX, RELATIONS, data, noiseless

from skdp import Domain, DPLinearRegression, Ledger
from skdp.geometry import LpBall
from skdp.geometry.moments import MomentBall, MomentLayout
from skdp.mechanisms import KNorm
from skdp.mechanisms.matrix import MatrixLaplace
from skdp.noise.independent import IndependentNoise
from skdp.noise.matrix import MatrixLaplaceNoise
from skdp.trusted.noise import GaussianNoise, KNormNoise


@pytest.mark.parametrize("neighbors", RELATIONS)
def test_every_mechanism_by_name_and_by_object(neighbors):
    X, y = data(60)
    dim = MomentLayout(2, (0, 1), target_square=True, neighbors=neighbors).dim
    kinds = {
        "laplace": IndependentNoise, "l1": KNormNoise, "l2": KNormNoise, "linf": KNormNoise,
        "hull": KNormNoise, "matrix": MatrixLaplaceNoise, "gaussian": GaussianNoise,
        "elliptic": GaussianNoise, KNorm("l2"): KNormNoise, LpBall(dim, p=1.5): KNormNoise,
        MatrixLaplace(): MatrixLaplaceNoise,
    }  # fmt: skip
    for mechanism, kind in kinds.items():
        for delta in (0.0, 1e-6):
            model = DPLinearRegression(
                domain=BOX, mechanism=mechanism, neighbors=neighbors, delta=delta, random_state=0
            )
            if kind is GaussianNoise and delta == 0:
                with refused("delta must be > 0"):
                    model.fit(X, y)
                continue
            model.fit(X, y)
            assert type(model.noise_) is kind
            promised = {
                MatrixLaplaceNoise: 0.0,  # so small a delta gains less than a thousandth
                IndependentNoise: model.noise_.guarantee.delta,
            }.get(kind, delta)
            assert (model.guarantee_.epsilon, model.guarantee_.delta) == (1.0, promised)
            assert model.guarantee_.neighbors == neighbors == model.noise_.guarantee.neighbors
            assert np.isfinite([*model.coef_, *model.coef_std_, model.intercept_std_]).all()


def test_delta_makes_auto_take_noise_on_an_ellipsoid_where_that_is_less():
    """Of K-norm and Gaussian noise on it the less: it makes use of delta, and says so."""
    X, kinds = np.zeros((100_000, 30)), {}
    domain = Domain.unit_box(30, target=(-1.0, 1.0))
    for delta in (0.0, 1e-3):
        model = DPLinearRegression(domain=domain, delta=delta, fit_intercept=False)
        kinds[delta] = model.fit(X, X[:, 0]).noise_
    assert isinstance(kinds[0.0], MatrixLaplaceNoise)
    assert isinstance(kinds[1e-3], KNormNoise)
    assert kinds[1e-3].guarantee.delta == 1e-3
    gaussian = DPLinearRegression(domain=domain, delta=1e-3, fit_intercept=False)
    gaussian = gaussian.set_params(mechanism="elliptic").fit(X, X[:, 0]).noise_
    assert np.trace(kinds[1e-3].covariance()) < np.trace(gaussian.covariance())


def test_auto_takes_no_ball_of_moments():
    """The matrix noise, also for one number, where noise on a ball of the moments is less."""
    X, domain = np.zeros((10_000, 1)), Domain.unit_box(1, target=(-1.0, 1.0))
    model = DPLinearRegression(domain=domain, fit_intercept=False).fit(X, X[:, 0])
    assert isinstance(model.noise_, MatrixLaplaceNoise)
    ball = model.set_params(mechanism="hull").fit(X, X[:, 0]).noise_
    assert isinstance(ball, KNormNoise)


def test_seeds_make_the_guarantee_void_everywhere():
    X, y = data(50)
    seeded = DPLinearRegression(domain=BOX, random_state=0).fit(X, y)
    for promise in (seeded.guarantee_, seeded.noise_.guarantee, seeded.moments_.noise.guarantee):
        assert not promise.holds
    real = DPLinearRegression(domain=BOX).fit(X, y)
    assert real.guarantee_.holds
    assert real.moments_.noise.guarantee.holds


def test_the_count_is_released_with_noise_where_it_is_private():
    X, y = data(500)
    grams = [
        DPLinearRegression(domain=BOX, neighbors=neighbors, random_state=0).fit(X, y).moments_.gram
        for neighbors in RELATIONS
    ]
    assert grams[0][0, 0] == 500
    assert grams[1][0, 0] != 500
    assert abs(grams[1][0, 0] - 500) < 200


def intercept_only(moments):
    return np.append(moments.matrix[0, -1], np.zeros(len(moments.r) - 2))


def test_postprocess_may_be_a_function_of_the_noisy_moments():
    X, y = data()
    model = noiseless(BOX, postprocess=intercept_only).fit(X, y)
    assert (model.coef_ == 0).all()
    assert model.intercept_ == pytest.approx(y.mean(), abs=1e-3)
    other = model.from_moments(["x0"], target="x1")
    assert other.intercept_ == pytest.approx(X[:, 1].mean(), abs=1e-3)


def test_a_function_that_fails_says_that_the_budget_was_spent():
    """And leaves the model of an earlier fit as it was."""
    X, y = data(100)
    ledger = Ledger(3.0)
    model = DPLinearRegression(domain=BOX, mechanism="matrix", random_state=0).fit(X, y)
    before = {name: value for name, value in vars(model).items() if name.endswith("_")}
    bad = [lambda m: np.zeros(2), lambda m: np.full(3, np.nan), lambda m: 1 / 0]
    for function in bad:
        model.set_params(postprocess=function, ledger=ledger)
        with pytest.raises((ValueError, ZeroDivisionError)) as caught:
            model.fit(X[:50], y[:50])
        assert "The budget was spent: epsilon = 1" in caught.value.__notes__[0]
        assert all(getattr(model, name) is value for name, value in before.items())
    assert len(ledger.entries) == 3


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, "word"])
def test_bad_cells_and_targets_cost_nothing_where_columns_are_scaled(bad):
    """And they are not quoted."""
    X, y = data(4000)
    X, y = X.astype(object), y.astype(object)
    spoilt_X, spoilt_y = X.copy(), y.copy()
    spoilt_X[3, 1], spoilt_y[3] = bad, bad
    for pair, text in (
        ((spoilt_X, y), "column 1 must contain only finite"),
        ((X, spoilt_y), "target must"),
    ):
        ledger = Ledger(1.0)
        with refused(text, ledger) as caught:
            DPLinearRegression(domain=BOX, ledger=ledger).fit(*pair)
        assert "word" not in str(caught.value)


def test_a_table_in_a_file_is_fitted_block_by_block(tmp_path):
    """52 MB of cells: the fit takes a tenth of that."""
    X = np.memmap(tmp_path / "rows", dtype=float, mode="w+", shape=(2**17, 50))
    y = np.zeros(len(X))
    domain = Domain.unit_box(50, target=(-1.0, 1.0))
    model = DPLinearRegression(domain=domain, mechanism="matrix").fit(X, y)
    tracemalloc.start()
    model.fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak - 8 * 2 * len(y) < 2**23


def test_the_ball_of_moments_is_the_one_the_domain_asks_for():
    """ "hull" is the K-norm of the moment ball of all columns, the target's square included."""
    model = DPLinearRegression(domain=BOX, mechanism="hull", random_state=0).fit(*data(50))
    layout = MomentLayout(2, (0, 1), target_square=True)
    assert model.noise_.ball == MomentBall(layout)
    assert model.noise_.scale == pytest.approx(1.0)


# A range of 1e-300 makes coefficients of 1e300 and more, which noise brings beyond all floats.
POOR = {k: v for k, v in TABLES.items() if k != "a tiny range"}
POOR["a small range"] = (Domain.box([1e-200, 1e20], [3e-200, 2e20]), [[2e-200, 1.5e20]] * 4)


@pytest.mark.parametrize("name", POOR)
@pytest.mark.parametrize("neighbors", RELATIONS)
def test_poor_data_are_fitted(name, neighbors):
    """One record, constant columns, more columns than records: no warning, finite numbers."""
    domain, rows = POOR[name]
    domain = Domain._build(domain._columns, domain._names, BOX._target, domain.radius)
    X, y = np.array(rows, dtype=object), np.resize([-20.0, 40.0], len(rows))
    for mechanism in ("auto", "matrix"):
        for intercept in (True, False):
            for postprocess in ("auto", "pinv", "psd", "ridge"):
                options = {"mechanism": mechanism, "fit_intercept": intercept, "random_state": 0}
                model = DPLinearRegression(
                    domain=domain, neighbors=neighbors, postprocess=postprocess, **options
                )
                if not domain.n_encoded and not intercept:
                    continue
                fit_quietly(model, X, y)
                assert np.isfinite([*model.coef_std_, model.intercept_std_]).all()
                assert np.isfinite(model.predict(X)).all()


@pytest.mark.parametrize("epsilon", [1e-6, 1e3, 1e9])
@pytest.mark.parametrize("mechanism", ["auto", "matrix", "l1"])
def test_every_epsilon_is_fitted(epsilon, mechanism):
    """From noise beyond all data to hardly any."""
    for neighbors in RELATIONS:
        options = {"epsilon": epsilon, "mechanism": mechanism, "neighbors": neighbors}
        model = DPLinearRegression(domain=BOX, random_state=0, **options)
        fit_quietly(model, *data(100))


@pytest.mark.parametrize("epsilon", [1e-200, 1e-30, 1e-12])
@pytest.mark.parametrize("mechanism", ["auto", "matrix", "l1"])
def test_an_epsilon_that_floats_cannot_keep_is_refused_before_the_charge(epsilon, mechanism):
    """Noise of 53 bits cannot be drawn finely enough for it."""
    for neighbors in RELATIONS:
        ledger = Ledger(1.0)
        options = {"epsilon": epsilon, "mechanism": mechanism, "neighbors": neighbors}
        model = DPLinearRegression(domain=BOX, ledger=ledger, **options)
        with refused("epsilon must be", ledger):
            model.fit(*data(100))
