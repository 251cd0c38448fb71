"""The sums of the inference stage: what one record changes, exactly, and the noise for it.

The proofs are in docs/proofs/inference.md.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from inference_records import NAMES, Releases, domain_of, records, share_of
from inner_inference import MOST_POWER, few_bits, longest_row
from spent import mu, part

from skdp.mechanisms import GaussianNoise, KNormNoise, MatrixLaplaceNoise
from skdp.mechanisms.knorm import gaussian_scale
from skdp.rows import memory
from skdp.trusted import NotPrivate, Public, certify

RELATIONS = ["replace_one", "add_remove"]
KINDS = pytest.mark.parametrize("regression", [False, True], ids=["labels", "numbers"])


def worst(neighbors, delta, cap=0):
    """The shares of the worst changes for three numbers and a target; and their stages."""
    domain, rng = domain_of("numbers", True), np.random.default_rng(0)
    facts = {"neighbors": neighbors, "delta": delta, "are_persons": cap > 0}
    stage = Releases.of(domain, rng, **facts)
    factor = stage.plan.factor
    # |f z| = 1 at a corner, and residuals that are clipped.
    scale = np.sqrt(np.sum(factor[1:] ** 2) / (1 - factor[0] ** 2))
    steep = stage.with_scores(scale, slopes=np.array([-9.0, 0, 0]), constant=0.0, bound=1e-3)
    flat = stage.with_scores(scale, slopes=np.zeros(3), constant=0.0, bound=1e-3)
    # Long rows in two directions, and no residual is clipped.
    matrix = np.diag([0.0, 1e9, 1e9, 1e9])
    apart = stage.with_scores(1e-6, matrix, slopes=np.zeros(3), constant=0.0, bound=100.0)
    corner, edges = [[1.0, 3.0, 1.0]] * 2, [[1.0, 1.5, 0.0], [0.0, 3.0, 0.0]]
    pairs = {
        "scales": (steep, [[1.0, 3.0, 1.0], [-1.0, 0.0, -1.0]], [1.0, -1.0]),
        "limits": (flat, [[1.0, 1.5, 0.0], [0.0, 1.5, 0.0]], [1.0, 0.0]),
        "scores": (flat, corner, [1.0, -1.0]),
        "curvatures": (apart, edges, [1.0, 1.0]),
        "squares": (apart, edges, [1.0, 1.0]),
    }
    for which, (own, X, y) in pairs.items():
        ids = np.zeros(1, int) if cap else None
        found = [
            own.statistics(own.rows(np.array(X[i : i + 1]), np.array(y[i : i + 1]), ids))[which]
            for i in range(stage.moved)
        ]
        yield stage.named[which], found


@pytest.mark.parametrize("cap", [0, 1])
@pytest.mark.parametrize("delta", [0.0, 1e-3])
@pytest.mark.parametrize("neighbors", RELATIONS)
def test_some_records_reach_the_calibrated_change(neighbors, delta, cap):
    """Less noise would not do. For curvatures the rows are almost orthogonal."""
    for release, found in worst(neighbors, delta, cap):
        assert Fraction(99, 100) < share_of(release, *found) <= 1, release
        if isinstance(release.noise, MatrixLaplaceNoise):
            change = found[0] if len(found) == 1 else found[0] - found[1]
            sizes = np.abs(np.linalg.eigvalsh(np.asarray(change, float) / 2.0**40)).sum()
            assert sizes > 0.99 * len(found)


@pytest.mark.parametrize("neighbors", RELATIONS)
def test_likelihood_ratios_are_within_epsilon_and_not_with_less_noise(neighbors):
    """Of released scores and squares: the densities of the worst pair on a line through both."""
    tried = 0
    for release, found in worst(neighbors, 0.0):
        noise = release.noise
        if not isinstance(noise, KNormNoise):
            continue
        one, other = (np.asarray(own, float) / 2.0**40 for own in (*found, 0 * found[0])[:2])
        at = np.linspace(-5, 6, 1101)[:, None] * (one - other) + other

        def greatest(scale, one=one, other=other, at=at, ball=noise.ball):
            return np.abs(ball.gauge(at - one) - ball.gauge(at - other)).max() / scale

        epsilon = part(release)
        assert 0.99 * epsilon < greatest(noise.scale) <= epsilon * (1 + 1e-12), release
        assert greatest(0.95 * noise.scale) > epsilon
        tried += 1
    assert tried == 4


@KINDS
@pytest.mark.parametrize("name", NAMES)
def test_contributions_depend_on_the_record_alone_bit_by_bit(name, regression, monkeypatch):
    """Sums of single records, of parts, in another order and in other blocks are equal.

    Eighty records stand alone; with the others in one part they add up to the whole.
    """
    rng, n, single = np.random.default_rng(3), 300, 80
    domain = domain_of(name, regression)
    stage = Releases.of(domain, rng)
    X, y = records(domain, n, rng)
    take = (lambda rows: X[rows]) if domain.is_ball else (lambda rows: X.iloc[rows])

    def of(rows):
        return stage.statistics(stage.rows(take(rows), y[rows]))

    whole, alone = of(np.arange(n)), [of(np.array([i])) for i in range(single)]
    alone.append(of(np.arange(single, n)))
    cut, order = [of(np.arange(0, 97)), of(np.arange(97, n))], rng.permutation(n)
    monkeypatch.setattr(memory, "CELLS", 1)
    for which, total in whole.items():
        assert np.array_equal(total, np.sum([own[which] for own in alone], axis=0)), which
        assert np.array_equal(total, np.sum([own[which] for own in cut], axis=0)), which
    again = of(order)
    assert all(np.array_equal(total, again[which]) for which, total in whole.items())


@pytest.mark.parametrize("cap", [1, 3])
@pytest.mark.parametrize("name", NAMES)
def test_contributions_depend_on_the_person_alone_bit_by_bit(name, cap):
    rng, n = np.random.default_rng(4), 120
    domain = domain_of(name, True)
    stage = Releases.of(domain, rng, are_persons=True)
    X, y = records(domain, n, rng)
    ids = rng.integers(0, 40, n)
    take = (lambda rows: X[rows]) if domain.is_ball else (lambda rows: X.iloc[rows])

    def of(rows):
        return stage.statistics(stage.rows(take(rows), y[rows], ids[rows], cap))

    # The first row of a person has what is left of its shares, so rows stay in their order.
    whole = of(np.argsort(rng.permutation(40)[ids], kind="stable"))
    alone = [of(np.flatnonzero(ids == own)) for own in np.unique(ids)]
    for which, total in whole.items():
        assert np.array_equal(total, np.sum([own[which] for own in alone], axis=0)), which


def test_squares_of_a_person_are_those_of_the_sum_of_its_rows():
    """Two rows with opposite influences cancel; as records they add up."""
    domain = domain_of("one number", True)
    stage = Releases.of(domain, np.random.default_rng(0), are_persons=True)
    stage = stage.with_scores(1.0, slopes=np.zeros(1), constant=0.0, bound=1e-3)
    X, y = np.array([[0.5], [0.5]]), np.array([1.0, -1.0])
    together = stage.statistics(stage.rows(X, y, np.zeros(2, int)))["squares"]
    apart = stage.statistics(stage.rows(X, y, np.arange(2)))["squares"]
    assert together.tolist() == [0, 0]
    assert sum(apart) > 0


@pytest.mark.parametrize("terms", [1, 2, 3, 100, 4097])
@pytest.mark.parametrize("size", [1.0, 3e-200, 1e-310, 7e119, 1e300])
def test_products_with_few_bits_are_exact(terms, size):
    """In any order, against fractions; sizes beyond the limits become 0 or the limit."""
    rng = np.random.default_rng(terms)
    given = size * rng.choice([-1.0, 1.0], terms) * rng.uniform(0.4, 1, terms)
    values = few_bits(given, terms)
    grid = rng.integers(-(2**20), 2**20 + 1, terms) / 2.0**20
    grid[: terms // 2] = 1.0
    products = [Fraction(a) * Fraction(b) for a, b in zip(values, grid, strict=True)]
    assert Fraction(float(values @ grid)) == sum(products)
    assert Fraction(float(values[::-1] @ grid[::-1])) == sum(products)
    assert np.abs(values).max() <= 2.0**MOST_POWER
    if 1e-100 < size < 1e100:
        np.testing.assert_allclose(values, given, rtol=0, atol=2.0**-19 * size)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e308])
def test_numbers_that_overflow_leave_sums_bounded(bad):
    """A matrix of influences or a model that is not finite: every record stays within the bound."""
    rng, domain = np.random.default_rng(7), domain_of("mixed", True)
    stage = Releases.of(domain, rng, neighbors="add_remove")
    slopes, matrix = stage.places.scores.slopes.copy(), stage.influences.matrix.copy()
    slopes[1], matrix[0, 1], matrix[1, :] = bad, bad, bad
    stage = stage.with_scores(1e-9, matrix, slopes=slopes, constant=bad)
    alone = [stage.statistics(stage.rows(*records(domain, 1, rng))) for _ in range(20)]
    for which, release in stage.named.items():
        assert max(share_of(release, own[which]) for own in alone) <= 1


def test_the_margin_for_rounding_is_needed_and_suffices():
    """A row of length 1 in floats may be longer on the grid, by less than the margin."""
    stage = Releases.of(domain_of("numbers", True), np.random.default_rng(0))
    layout = stage.plan.curvatures.layout
    k, longest = layout.n_rows, longest_row(layout)
    rng = np.random.default_rng(8)
    rows = rng.normal(size=(20_000, k))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    lengths = np.linalg.norm(np.round(np.ldexp(rows, 20)) / 2.0**20, axis=1)
    assert 1 + 2.0**-22 < lengths.max() < longest


def test_gaussian_parts_share_what_the_checker_accepts():
    """More than their shares of epsilon alone would be, and no more than the budget."""
    stage = Releases.of(domain_of("mixed", True), np.random.default_rng(0), delta=1e-3)
    assert isinstance(stage.plan.scores, GaussianNoise)
    first, rest = stage.plan.releases[:2], stage.plan.releases[2:]
    epsilon, delta = stage.task.epsilon, stage.task.delta
    alone = Fraction(1 / gaussian_scale(epsilon - sum(map(part, first)), delta)) ** 2
    assert sum(Fraction(mu(own)) ** 2 for own in rest) > alone
    certify(stage.plan.releases, Public(epsilon, delta))
    with pytest.raises(NotPrivate):
        certify(stage.plan.releases, Public(0.97 * epsilon, delta))
