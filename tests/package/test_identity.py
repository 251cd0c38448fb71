"""Parts are compared by ``==``; those of others are checked once and named in guarantees."""

from dataclasses import dataclass

import numpy as np
import pytest
from inner_package import check_at_first_use, others_in, relied_on, remembered
from own_parts import Cylinder, HyperbolicSecant

from skdp import Domain, DPHuberRegressor
from skdp.geometry import LpBall, MappedBall
from skdp.linear_model.losses import PseudoHuber
from skdp.mechanisms import Independent, KNorm, Sensitivity, calibrate, calibrate_releases
from skdp.noise import Gaussian, Laplace
from skdp.privacy import Composition, Guarantee
from skdp.privacy.shift import ShiftLoss
from skdp.testing.examples import LaplaceInTheBox
from skdp.trusted.losses import GaussianLoss, counted


def test_equal_arguments_are_asked_for_once():
    asked = []
    count = remembered(maxsize=8)(lambda part, scale=1.0: asked.append((part, scale)))
    for _ in range(2):
        count(Laplace(2.0))
        count(Laplace(2.0), scale=3.0)
        count(Gaussian(2.0))
    assert asked == [(Laplace(2.0), 1.0), (Laplace(2.0), 3.0), (Gaussian(2.0), 1.0)]


@pytest.mark.parametrize("part", [np.zeros(2), [1.0], (1.0, {})], ids=repr)
def test_what_has_no_hash_is_asked_for_anew(part):
    asked = []
    count = remembered(maxsize=8)(lambda part: asked.append(part))
    count(part)
    count(part)
    assert len(asked) == 2


def test_equal_losses_are_counted_together():
    one, other = GaussianLoss(1.0), GaussianLoss(2.0)
    assert counted([(one, 1), (other, 2), (one, 3)]) == ((one, 4), (other, 2))


def with_a_factor(parent, *arguments):
    found = type("Bent", (parent,), {"__module__": __name__})(*arguments)
    object.__setattr__(found, "factor", 5.0)
    return found


def test_a_part_that_holds_more_than_it_compares_is_refused():
    """Else what is cached for one instance would be taken for another one."""
    model = DPHuberRegressor(loss=with_a_factor(PseudoHuber, 0.5), domain=Domain.unit_box(1))
    for use in (
        lambda: Independent(with_a_factor(Laplace, 1.0)),
        lambda: Sensitivity(with_a_factor(Cylinder)),
        lambda: ShiftLoss(with_a_factor(Laplace, 1.0), 1.0),
        lambda: Composition([(with_a_factor(GaussianLoss, 1.0), 1)]),
        lambda: Guarantee(3.0, losses=((with_a_factor(GaussianLoss, 1.0), 1),)),
        lambda: model.fit([[0.5]], [0.5]),
    ):
        with pytest.raises(ValueError, match=r"compare all its attributes by ==.*factor"):
            use()


@dataclass(frozen=True)
class Wrapped:
    """A law of somebody else's that holds another one."""

    law: object


def test_nor_may_a_part_inside_a_part_hold_more_than_it_compares():
    inside = Wrapped(with_a_factor(Gaussian, 1.0))
    decorated = Huber(0.5)
    object.__setattr__(decorated, "factor", 5.0)
    for use in (
        lambda: ShiftLoss(inside, 1.0),
        lambda: Sensitivity(MappedBall(with_a_factor(Cylinder), [2.0] * 3)),
        lambda: check_at_first_use(decorated, "loss"),
    ):
        with pytest.raises(ValueError, match=r"compare all its attributes by ==.*factor"):
            use()


class Louder(GaussianLoss):
    """A subclass with a profile of its own."""

    def log_delta(self, epsilon):
        return GaussianLoss(10 * self.mu).log_delta(epsilon)

    def log_tails(self, loss):
        return GaussianLoss(10 * self.mu).log_tails(loss)


def test_a_subclass_is_not_its_parent():
    """It is neither counted with it, nor is the closed form of the parent taken."""
    found = Composition([(GaussianLoss(0.1), 1), (Louder(0.1), 1)]).delta_at(1.0)
    true = Composition([(GaussianLoss(0.1), 1), (GaussianLoss(1.0), 1)]).delta_at(1.0)
    assert found.upper == pytest.approx(true.upper, rel=1e-3)
    claimed = Guarantee(3.0, 0.1, losses=((Louder(0.1), 4),)).delta_at(1.0)
    true = Composition([(GaussianLoss(1.0), 4)]).delta_at(1.0)
    assert claimed == pytest.approx(true.upper, rel=1e-3)


@dataclass(frozen=True)
class Counted(HyperbolicSecant):
    """A law of somebody else's that counts its draws."""

    def rvs(self, size, rng):
        DRAWN.append(size)
        return super().rvs(size, rng)


DRAWN = []


def test_a_part_of_others_is_checked_once():
    Independent(Counted(2.0))
    first = len(DRAWN)
    Independent(Counted(2.0))
    assert len(DRAWN) == first > 0
    Independent(Counted(3.0))
    assert len(DRAWN) == 2 * first


def test_parts_of_the_package_are_not_checked():
    check_at_first_use(Laplace(), "no such kind")
    with pytest.raises(KeyError):
        check_at_first_use(OwnCylinder(), "no such kind")


class Huber(PseudoHuber):
    """A loss of somebody else's."""


def test_others_are_found_inside_parts():
    assert [
        *others_in((Laplace(), KNorm(MappedBall(LpBall(2), (2.0, 2.0))), "l2", None, 1.0))
    ] == []
    law = Huber(0.5)
    assert [*others_in([KNorm("l2"), (1, law), Huber])] == [law]
    ball = Sensitivity(MappedBall(OwnCylinder(), [2.0] * 3))
    assert [type(part) for part in others_in(ball)] == [OwnCylinder]


class OwnCylinder(Cylinder):
    """A ball of somebody else's."""


def test_a_guarantee_names_the_classes_that_it_relies_on():
    name = f"{__name__}.OwnCylinder"
    said = f"It relies on {name}, which is not part of skdp."
    assert relied_on(OwnCylinder(), Laplace(), OwnCylinder(2.0)) == (said,)
    sensitivity = Sensitivity(OwnCylinder())
    for mechanism in ("hull", "gaussian", "laplace", "elliptic"):
        noise = calibrate(mechanism, sensitivity, epsilon=1.0, delta=1e-6)
        assert noise.guarantee.assumptions == (said,)
    one = {"neighbors": "replace_one", "epsilon": 1.0, "delta": 1e-6}
    for law, names in ((Laplace(), 0), (Counted(2.0), 1)):
        claimed = calibrate_releases(law, [(1.0, 3)], **one).guarantee
        assert len(claimed.assumptions) == names


class OwnBox(LaplaceInTheBox):
    """A mechanism of somebody else's."""


def test_the_noise_of_a_mechanism_of_others_names_it():
    noise = calibrate(OwnBox(), Sensitivity(LpBall(2)), epsilon=1.0)
    assert noise.guarantee.assumptions == relied_on(OwnBox())
    assert type(noise) is type(OwnBox().calibrate(Sensitivity(LpBall(2)), epsilon=1.0))
    assert calibrate("l2", Sensitivity(LpBall(2)), epsilon=1.0).guarantee.assumptions == ()


OWN = {"loss": Huber(0.5), "mechanism": OwnBox()}


@pytest.mark.parametrize("names", [[], ["loss"], ["mechanism"], [*OWN]], ids=str)
def test_the_card_of_a_model_names_them(names):
    parts = {name: OWN[name] for name in names}
    X = np.random.default_rng(0).uniform(-1, 1, (40, 2))
    domain = Domain.unit_box(2, target=(-1.0, 1.0))
    card = str(DPHuberRegressor(**parts, domain=domain).fit(X, X[:, 0]).guarantee_)
    told = " ".join(card.split())
    assert told.count("which is not part of skdp") == len(parts)
    for part in parts.values():
        assert f"relies on {__name__}.{type(part).__name__}" in told
