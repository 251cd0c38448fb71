"""What is remembered for one part is served to no other one."""

import ast
import pickle
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import pytest

import skdp
from skdp._identity import counted, fingerprint, one_call, remembered, same
from skdp.geometry import LpBall, SumBall
from skdp.linear_model._objective.perturbation import greatest_leverage
from skdp.linear_model._objective.profiles import JointProfile, greatest_shift
from skdp.linear_model.losses import Logistic, PseudoHuber, SharpLogistic
from skdp.noise import Gaussian, Laplace, Staircase, Subbotin
from skdp.privacy import Composition, Guarantee
from skdp.privacy.losses.losses import FiniteLoss, GaussianLoss, PairLoss, ProfileLoss, ShiftLoss
from skdp.privacy.losses.radial import RadialLoss


@dataclass(frozen=True)
class Point:
    """What may be remembered while a call lasts."""

    x: float = 0.0

    @cached_property
    def twice(self):
        return 2 * self.x


class Plain(Point):
    """A plain subclass, which may hold anything."""

    extra = 0


@dataclass
class Changing:
    x: float = 0.0


@dataclass(frozen=True)
class PartlyCompared:
    x: float = 0.0
    hidden: float = field(default=0.0, compare=False)


@dataclass(frozen=True)
class AllAlike:
    x: float = 0.0

    def __eq__(self, other):
        return True

    def __hash__(self):
        return 0


class Slotted(Point):
    __slots__ = ("more",)


@dataclass(frozen=True)
class OnSlots(Slotted):
    y: float = 0.0


def with_extra(part):
    object.__setattr__(part, "extra", 1.0)
    return part


def closed_over(state):
    return lambda epsilon: epsilon - state[0]


UNKNOWN = [
    Plain(),
    Changing(),
    with_extra(Point()),
    OnSlots(),
    Point(np.zeros(2)),
    Point([1.0]),
    Point(Plain()),
    (Point(), Changing()),
    ProfileLoss(closed_over([0.0])),
    ProfileLoss(Changing().__eq__),
]


@pytest.mark.parametrize("part", UNKNOWN, ids=lambda part: type(part).__name__)
def test_what_could_change_has_no_fingerprint(part):
    assert fingerprint(part) is None
    assert same(part, part)
    asked = []
    count = remembered(maxsize=8)(lambda part: asked.append(part))
    count(part)
    count(part)
    assert len(asked) == 2


factor = 1.0


@dataclass(frozen=True)
class OfAGlobal(PseudoHuber):
    """A frozen class whose bound reads a global of its module."""

    threshold: float = 0.5

    def curvature_bound(self, low, high):
        return factor * super().curvature_bound(low, high)


def test_what_reads_something_that_changed_is_calibrated_anew(monkeypatch):
    """It is remembered while one call lasts, and not from one to the next."""
    args = (OfAGlobal(), 0.9, 1.0, "replace_one")
    with one_call():
        before = greatest_leverage(*args)
    again = greatest_leverage(*args)
    monkeypatch.setitem(globals(), "factor", 5.0)
    assert again == before
    assert greatest_leverage(*args) < before / 4
    with one_call():
        assert greatest_leverage(*args) < before / 4


def test_within_one_call_parts_of_others_are_remembered():
    asked = []
    count = remembered(maxsize=8)(lambda part: asked.append(part))
    with one_call():
        count(Point(1.0))
        with one_call():
            count(Point(1.0))
    assert len(asked) == 1
    count(Point(1.0))
    with one_call():
        count(Point(1.0))
    assert len(asked) == 3


DIFFERENT = [
    (Point(1.0), Point(2.0)),
    (Point(0.0), Point(-0.0)),
    (Point(1.0), Plain(1.0)),
    (PartlyCompared(1.0, 2.0), PartlyCompared(1.0, 3.0)),
    (AllAlike(1.0), AllAlike(2.0)),
    (Laplace(), Gaussian()),
    (np.float64(1.0), np.float32(1.0)),
    (1, True),
]


@pytest.mark.parametrize(("one", "other"), DIFFERENT, ids=repr)
def test_different_parts_are_never_the_same(one, other):
    assert not same(one, other)
    assert len(counted([(one, 1), (other, 2)])) == 2
    keep = remembered(maxsize=8)(lambda part: part)
    assert keep(one) is one
    assert keep(other) is other


OWN = [
    *(Logistic(), SharpLogistic(0.6), PseudoHuber(0.3)),
    *(Laplace(2.0), Gaussian(), Subbotin(1.5), Staircase(1.0)),
    *(GaussianLoss(1.0), PairLoss(1.0), ShiftLoss(Laplace(), 1.0), RadialLoss(3, 1.0)),
    FiniteLoss((0.0,), (0.0,)),
    ProfileLoss(JointProfile(Logistic(), 1.0, 1.0)),
    *(LpBall(3, weights=(1.0, 2.0, 3.0)), SumBall((LpBall(1), LpBall(2)), (0.5, 0.5))),
]


@pytest.mark.parametrize("part", OWN, ids=repr)
def test_the_packages_own_parts_are_known_also_after_use(part):
    for member in ("curvature_bound", "log_tails", "logsf"):
        if hasattr(part, member):
            getattr(part, member)(*([0.1, 0.2] if member == "curvature_bound" else [0.1]))
    assert fingerprint(part) is not None
    assert same(part, pickle.loads(pickle.dumps(part)))


class Bent(PseudoHuber):
    """A plain subclass whose bound on the curvature has a factor of its own."""

    def __init__(self, threshold, factor):
        super().__init__(threshold)
        object.__setattr__(self, "factor", factor)

    def curvature_bound(self, low, high):
        return self.factor * super().curvature_bound(low, high)


def test_a_subclass_is_calibrated_for_itself():
    """They are equal and have one hash, as the dataclass that they inherit from compares."""
    once, five = Bent(0.5, 1.0), Bent(0.5, 5.0)
    assert once == five
    assert hash(once) == hash(five)
    args = (0.9, 1.0, "replace_one")
    assert greatest_leverage(five, *args) < greatest_leverage(once, *args) / 4
    assert greatest_shift(five, 0.3, 1.0, 1e-6, "add_remove") < greatest_shift(
        once, 0.3, 1.0, 1e-6, "add_remove"
    )
    profiles = [JointProfile(loss, 0.3, 0.5)(1.0) for loss in (once, five)]
    assert profiles[0] < profiles[1]


def test_a_loss_that_changed_is_calibrated_anew():
    loss = Bent(0.5, 1.0)
    before = greatest_leverage(loss, 0.9, 1.0, "replace_one")
    object.__setattr__(loss, "factor", 5.0)
    assert greatest_leverage(loss, 0.9, 1.0, "replace_one") < before / 4


class Wider(Laplace):
    """A plain subclass whose tail has a factor of its own."""

    def __init__(self, factor):
        super().__init__(1.0)
        object.__setattr__(self, "factor", factor)

    def isf(self, q):
        return self.factor * super().isf(q)


class Louder(GaussianLoss):
    """A plain subclass with a profile of its own."""

    def __init__(self, mu, factor):
        super().__init__(mu)
        object.__setattr__(self, "factor", factor)

    def log_delta(self, epsilon):
        return GaussianLoss(self.factor * self.mu).log_delta(epsilon)

    def log_tails(self, loss):
        return GaussianLoss(self.factor * self.mu).log_tails(loss)


def test_losses_that_are_equal_by_inheritance_are_composed_apart():
    """Neither are they counted together, nor is the closed form of the parent taken."""
    found = Composition([(Louder(0.1, 1.0), 1), (Louder(0.1, 10.0), 1)]).delta_at(1.0)
    true = Composition([(GaussianLoss(0.1), 1), (GaussianLoss(1.0), 1)]).delta_at(1.0)
    assert found.upper == pytest.approx(true.upper, rel=1e-3)
    promise = Guarantee(3.0, 0.1, losses=((Louder(0.1, 10.0), 4),))
    assert promise.delta_at(1.0) == pytest.approx(
        Composition([(GaussianLoss(1.0), 4)]).delta_at(1.0).upper, rel=1e-3
    )


def test_a_loss_that_says_it_equals_everything_still_counts():
    class Hidden(PairLoss):
        def __eq__(self, other):
            return True

        def __hash__(self):
            return hash(PairLoss(0.0))

    promise = Guarantee(3.0, losses=((Hidden(3.0), 1),))
    assert promise.delta_at(1.0) > 0.5


# A class is compared by its identity.
NUMBERS = {"int", "float", "str", "bytes", "bool", "None", "Path", "type"}


def test_other_caches_are_for_numbers_and_text_only():
    """A part of somebody else's must not meet functools' caches, which ask for its equality."""
    root = Path(skdp.__file__).parent
    for path in root.rglob("*.py"):
        if path.name == "_identity.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and "cache" in ast.dump(
                ast.List(node.decorator_list, ast.Load())
            ).replace("cached_property", ""):
                kinds = {a.annotation and ast.unparse(a.annotation) for a in node.args.args}
                names = {name for kind in kinds for name in str(kind).split(" | ")}
                assert names <= NUMBERS, f"{path.name}: {node.name}"
            elif isinstance(node, ast.Call) and "lru_cache" in ast.dump(node.func):
                assert [k.arg for k in node.keywords] == ["maxsize"], path.name
