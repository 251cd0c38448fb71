"""The sums of the inference stage: what one record changes, exactly, and the noise for it.

The proofs are in docs/proofs/inference.md.
"""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from inference_records import NAMES, TARGETS, Releases, domain_of, records, share_of
from inner_inference import CELLS, MOST_POWER, bounded, few_bits, longest_row
from spent import mu, part

from skdp.mechanisms import GaussianNoise, KNormNoise, MatrixLaplaceNoise
from skdp.mechanisms.knorm import gaussian_scale
from skdp.rows import memory
from skdp.trusted import NotPrivate, Public, certify

RELATIONS = ["replace_one", "add_remove"]
KINDS = pytest.mark.parametrize("kind", TARGETS)
# Of one coefficient of two numbers: the sizes of the other number are a release of their own.
FEW = {"numbers": (1,), "curve": (2, 3), "one number": (1,)}


def worst(neighbors, delta=0.0, cap=0, targets=None):
    """The worst changes for three numbers and a target, with their releases."""
    domain, rng = domain_of("numbers", "numbers"), np.random.default_rng(0)
    facts = {"neighbors": neighbors, "delta": delta, "are_persons": cap > 0, "targets": targets}
    stage = Releases.of(domain, rng, **facts)
    m, factor = len(stage.plan.targets), stage.plan.factor
    stage = dataclasses.replace(stage, units=np.full(m, 1e-3))
    # |f z| = 1 at a corner. Directions of all numbers, or of the first number alone.
    scale = np.sqrt(np.sum(factor[1:] ** 2) / (1 - factor[0] ** 2))
    every, one, none = np.eye(m, 4, 4 - min(m, 3)) * 1e9, np.zeros((m, 4)), np.zeros(3)
    one[0, 1] = 1e9
    flat = stage.at(scale, one, slopes=none, constant=0.0, bound=1e-3)
    # Long rows in two directions, and residuals at their bound.
    apart = stage.at(1e-6, every, slopes=none, constant=0.0, bound=1.0)
    corner, edges = [[1.0, 3.0, 1.0]] * 2, [[1.0, 1.5, 0.0], [0.0, 3.0, 0.0]]
    # Of residuals, and of the sign of the first number.
    signs, sides = [1.0, -1.0], [[1.0, 1.5, 0.0], [-1.0, 1.5, 0.0]]
    pairs = {
        "scales": (flat, [[1.0, 3.0, 1.0], [-1.0, 0.0, -1.0]], signs),
        "limits": (flat, [[1.0, 1.5, 0.0], [0.0, 1.5, 0.0]], [1.0, 0.0]),
        "sizes": (flat, [[1.0, 3.0, 1.0], [0.0, 1.5, 0.0]], [1.0, 0.0]),
        "coordinates": (apart, edges, [1.0, 1.0]),
        "scores": (flat, corner, signs),
        "curvatures": (apart, edges, [1.0, 1.0]),
        "numerators": (flat, corner, signs),
        # The first direction times the constant, which has no sign.
        "denominators": (apart.at(1e-6, one), sides, [0.0, 0.0]),
        "squares": (apart, edges, [1.0, 1.0]),
    }
    pairs["other sizes"] = pairs["sizes"]
    for which, release in stage.named.items():
        own, X, y = pairs[which]
        ids = np.zeros(1, int) if cap else None
        found = [
            own.statistics(own.rows(np.array(X[i : i + 1]), np.array(y[i : i + 1]), ids))[which]
            for i in range(stage.moved)
        ]
        yield release, found


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


@pytest.mark.parametrize("targets", [None, (0,)])
@pytest.mark.parametrize("neighbors", RELATIONS)
def test_likelihood_ratios_are_within_epsilon_and_not_with_less_noise(neighbors, targets):
    """The densities of the worst pair on a line through both; also of sums of one number.

    One square changes by half of the bound if a record is replaced.
    """
    tried = set()
    for release, found in worst(neighbors, targets=targets):
        noise = release.noise
        if not isinstance(noise, KNormNoise) or (targets and release.name == "squares"):
            continue
        one, other = (np.asarray(own, float) / 2.0**40 for own in (*found, 0 * found[0])[:2])
        at = np.linspace(-5, 6, 1101)[:, None] * (one - other) + other

        def greatest(scale, one=one, other=other, at=at, ball=noise.ball):
            return np.abs(ball.gauge(at - one) - ball.gauge(at - other)).max() / scale

        epsilon = part(release)
        assert 0.99 * epsilon < greatest(noise.scale) <= epsilon * (1 + 1e-12), release
        assert greatest(0.95 * noise.scale) > epsilon
        tried.add(release.name)
    assert {"scales", "limits", "sizes", "scores", "numerators", "denominators"} <= tried
    assert ("other sizes" in tried) == (targets is not None)


@KINDS
@pytest.mark.parametrize("delta", [0.0, 1e-3])
@pytest.mark.parametrize("name", NAMES)
def test_no_change_exceeds_that_of_the_noise(name, delta, kind):
    """Pairs of random records, many of them far out, under both relations; rows and persons."""
    rng, domain = np.random.default_rng(2), domain_of(name, kind)
    for neighbors, cap in product(RELATIONS, (0, 3)):
        facts = {"neighbors": neighbors, "delta": delta, "are_persons": cap > 0}
        stage = Releases.of(domain, rng, **facts, targets=FEW.get(name))
        tried = [stage, stage.at(1e-4, slopes=0 * stage.places.scores.slopes, bound=1e-3)]
        for own, _ in product(tried, range(4)):
            n = 1 + cap
            pair = [
                own.statistics(own.rows(*records(domain, n, rng), *[np.zeros(n, int), cap][:cap]))
                for _ in range(stage.moved)
            ]
            for which, release in own.named.items():
                assert share_of(release, *(found[which] for found in pair)) <= 1, which


@KINDS
@pytest.mark.parametrize("name", NAMES)
def test_contributions_depend_on_the_record_alone_bit_by_bit(name, kind, monkeypatch):
    """Sums of single records, of parts, in another order and in other blocks are equal.

    Eighty records stand alone; with the others in one part they add up to the whole.
    """
    rng, n, single = np.random.default_rng(3), 300, 80
    domain = domain_of(name, kind)
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
        assert np.any(total != 0), which
        assert np.array_equal(total, np.sum([own[which] for own in alone], axis=0)), which
        assert np.array_equal(total, np.sum([own[which] for own in cut], axis=0)), which
    again = of(order)
    assert all(np.array_equal(total, again[which]) for which, total in whole.items())


@pytest.mark.parametrize("cap", [1, 3])
@pytest.mark.parametrize("name", NAMES)
def test_contributions_depend_on_the_person_alone_bit_by_bit(name, cap):
    rng, n = np.random.default_rng(4), 120
    domain = domain_of(name, "numbers")
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
    domain = domain_of("one number", "numbers")
    stage = Releases.of(domain, np.random.default_rng(0), are_persons=True)
    stage = stage.at(1.0, slopes=np.zeros(1), constant=0.0, bound=1e-3)
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
    """Directions or a model that are not finite: every record stays within the bound."""
    rng, domain = np.random.default_rng(7), domain_of("mixed", "numbers")
    stage = Releases.of(domain, rng, neighbors="add_remove")
    slopes, matrix = stage.places.scores.slopes.copy(), stage.products.matrix.copy()
    slopes[1], matrix[0, 1], matrix[1, :] = bad, bad, bad
    stage = stage.at(1e-9, matrix, slopes=slopes, constant=bad)
    alone = [stage.statistics(stage.rows(*records(domain, 1, rng))) for _ in range(20)]
    for which, release in stage.named.items():
        assert max(share_of(release, own[which]) for own in alone) <= 1


@pytest.mark.parametrize("m", [1, 2, 4, 30])
def test_the_margin_for_rounding_is_needed_and_suffices(m):
    """A row of length 1 in floats may be longer on the grid, by less than the margin."""
    rng = np.random.default_rng(8)
    rows = rng.normal(size=(20_000, m)) * rng.choice([1e-6, 0.3, 1.0, 1e9, 1e150], (20_000, 1))
    lengths = np.linalg.norm(bounded(rows), axis=1)
    assert lengths.max() < longest_row(m)
    assert m == 1 or lengths.max() > 1 + 2.0**-22
    short = rows[np.linalg.norm(rows, axis=1) < 1]
    np.testing.assert_allclose(bounded(short), short, rtol=0, atol=2.0**-21)


BUDGETS = [(1.0, 0.0), (0.1, 1e-3), (30.0, 1e-6)]
PLANS = [("mixed", None), ("mixed", (1,)), ("levels", None), ("ball", None)]


def planned(name, neighbors, budget, targets, kind="numbers"):
    """The public facts and the releases of a plan, and whether its noise is Gaussian."""
    stage = Releases.of(
        domain_of(name, kind), np.random.default_rng(0), neighbors=neighbors, targets=targets,
        epsilon=budget[0], delta=budget[1], n=5000,
    )  # fmt: skip
    is_gaussian = isinstance(stage.plan.scores, GaussianNoise)
    public = Public(budget[0], budget[1] * is_gaussian, neighbors)
    return public, stage.plan.releases, is_gaussian


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("neighbors", RELATIONS)
@pytest.mark.parametrize(("name", "targets"), PLANS)
def test_the_epsilons_of_all_parts_add_up_to_the_budget(name, targets, neighbors, budget):
    """In fractions if all noise is pure; Gaussian noise is composed."""
    public, releases, is_gaussian = planned(name, neighbors, budget, targets)
    assert (budget[0] == 0.1) <= is_gaussian <= (budget[1] > 0)
    certify(releases, public)
    if not is_gaussian:
        parts, whole = sum(map(Fraction, map(part, releases))), Fraction(budget[0])
        assert Fraction(1 - 1e-9) * whole < parts <= whole
        return
    # More than their shares of epsilon alone would be.
    pure = [own for own in releases if isinstance(own.noise, KNormNoise)]
    assert {own.name for own in pure}.isdisjoint({"coordinates", "scores", "curvatures"})
    alone = Fraction(1 / gaussian_scale(budget[0] - sum(map(part, pure)), budget[1])) ** 2
    assert sum(Fraction(mu(own)) ** 2 for own in releases if own not in pure) > alone
    with pytest.raises(NotPrivate):
        certify(releases, dataclasses.replace(public, epsilon=0.97 * budget[0]))


@pytest.mark.parametrize("neighbors", RELATIONS)
@pytest.mark.parametrize("budget", BUDGETS[:2])
@pytest.mark.parametrize("kind", ["numbers", "counts"])
def test_less_noise_in_one_release_is_refused(kind, budget, neighbors):
    """5 % less; half of it if all parts are composed, with which the plan leaves up to 1 %."""
    fields = {"KNormNoise": "scale", "GaussianNoise": "factor", "MatrixGaussianNoise": "deviation"}
    public, releases, is_gaussian = planned("mixed", neighbors, budget, None, kind)
    assert len(releases) == 9
    for at, own in enumerate(releases):
        size, field = 0.5 if is_gaussian else 0.95, fields.get(type(own.noise).__name__)
        if field is None:
            size, field = 1 / size, "precision"
        less = dataclasses.replace(own.noise, **{field: getattr(own.noise, field) * size})
        twin = [*releases[:at], dataclasses.replace(own, noise=less), *releases[at + 1 :]]
        with pytest.raises(NotPrivate):
            certify(twin, public)


def test_sizes_are_counted_in_cells_of_half_an_octave():
    """With centre 0 and the model 0: |x| / 2 from 2^(-(j + 1) / 2) to 2^(-j / 2) is in cell j."""
    stage = Releases.of(domain_of("one number", "numbers"), np.random.default_rng(0))
    stage = stage.at(slopes=np.zeros(1), constant=0.0)
    for x, y, cells in [(1.0, 0.0, (1, CELLS - 1)), (-0.72, 0.7, (2, 3)), (0.25, -1e-6, (5, 31))]:
        counts = stage.statistics(stage.rows(np.array([[x]]), np.array([y])))["sizes"]
        found = np.flatnonzero(counts).tolist()
        assert found == [cells[0], CELLS + cells[1]], (x, y)
        assert counts[found].tolist() == [2**40] * 2
