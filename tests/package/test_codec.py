"""The codec of files: exact, closed, and strict."""

from __future__ import annotations

import copy
import json
import math
import random
from contextlib import suppress
from functools import reduce
from operator import getitem
from typing import Any

import inner_package
import numpy as np
import pytest
from file_edits import outcome, paths
from inner_package import ARRAYS, TYPES, FloatArray, decode, encode, from_text, hints_of, to_text
from numpy.typing import NDArray

import skdp
from skdp import Domain, DPCoordinateDescentRegressor, DPLinearRegression, Guarantee, Spline
from skdp.domain.columns import Levels, Number
from skdp.domain.splines import Column
from skdp.linear_model import check_proof
from skdp.noise import Laplace, Subbotin
from skdp.privacy.shift import ShiftedLaw, ShiftLoss
from skdp.trusted import NotPrivate
from skdp.trusted.certify import PrivateChoice
from skdp.trusted.losses import FiniteLoss, GaussianLoss, Profile

LOSS = ShiftLoss(Subbotin(3.0, 0.1 + 0.2), 5e-324)
FINITE = FiniteLoss((0.0, 0.5), (-0.5, -1.25), -2.2352578692748204, -1.5155132518505716)
VALUES = [
    (float, 0.1 + 0.2),
    (float, -0.0),
    (float, -math.inf),
    (int, 2**70),
    (int | None, None),
    (tuple[float, ...], (1.5, math.inf)),
    (dict[str, list[int]], {"kind": [1, 2], "b": []}),
    (tuple[tuple[str, int], ...], (("a", 1), ("b", 2))),
    (Column, Levels(("a", 1, 2.5, True), "a", "indicator")),
    (Number, Number(-1e308, 5e-324, "middle")),
    (Profile, LOSS),
    (Profile, FINITE),
    (tuple[PrivateChoice, ...], (PrivateChoice("choices", 0.5, 3),)),
]


@pytest.mark.parametrize(("hint", "value"), VALUES, ids=repr)
def test_values_read_back_exactly(hint, value):
    again = decode("it", hint, from_text("it", to_text(encode("it", value))))
    assert again == value
    assert repr(again) == repr(value)  # -0.0 and the types of levels, which == does not compare


ARRAY_VALUES = [
    np.array([[0.1, -0.0, math.inf], [5e-324, 1.0, -math.inf]]),
    np.zeros((0, 3)),
    np.zeros((3, 0), dtype="int8"),
    np.array(2.5),
    np.array([2**64 - 1], dtype="uint64"),
    np.array([True, False]),
    np.array(["a", "long"]),
    np.array(["a", 1, 2.5, True], dtype=object),
    np.array([0.1], dtype="float32"),
]


@pytest.mark.parametrize("array", ARRAY_VALUES, ids=repr)
def test_arrays_read_back_exactly(array):
    again = decode("it", NDArray[Any], from_text("it", to_text(encode("it", array))))
    assert again.dtype == array.dtype
    assert again.shape == array.shape
    assert [*map(repr, again.ravel().tolist())] == [*map(repr, array.ravel().tolist())]


class Mine(Laplace):
    """A class of somebody else with a name and a base of this package."""


@pytest.mark.parametrize(
    "value",
    [math.nan, np.array([math.nan]), 1j, b"x", {1: 2}, {"a": object()}, {1, 2}, print, Mine(1.0)]
    + [ShiftLoss(Mine(1.0), 1.0), np.array([None]), np.array(["2020"], "M8[Y]")]
    + [type("Laplace", (), {})()],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_other_values_are_not_written(value):
    with pytest.raises(ValueError, match="must contain strings, bools, numbers and objects"):
        encode("it", value)


def an_array(**changes):
    return {"kind": "array", "type": "float64", "shape": [2], "entries": [1.0, 2.0]} | changes


LAPLACE = {"kind": "Laplace", "scale": 2.0}
WRONG = [
    *((float, wrong) for wrong in (True, "1", None, [], {}, math.nan, "nan", 10**400)),
    *((int, wrong) for wrong in (True, 1.0, "1")),
    *((str, 1), (bool, 1), (bool, 0.0), (int | None, False), (list[int], [True])),
    *((tuple[int, int], [1]), (tuple[int, int], [1, 2, 3]), (list[int], {}), (dict[str, int], [])),
    *((dict[str, int], {1: 1}), ({"a": int}, {}), ({"a": int}, {"a": 1, "b": 2})),
    (object, math.inf),
    *((ShiftedLaw, LAPLACE | {"scale": wrong}) for wrong in (-1.0, True, "1", None, "inf")),
    (ShiftedLaw, {"kind": "Laplace"}),
    (ShiftedLaw, LAPLACE | {"unknown": 1}),
    *((ShiftedLaw, {"kind": kind, "scale": 2.0}) for kind in ("os.system", "Domain", "array", 1)),
    (ShiftedLaw, {"kind": "GaussianLoss", "mu": 1.0}),  # a type of the table without the members
    (GaussianLoss, LAPLACE),
    *((FloatArray, an_array(type=wrong)) for wrong in ("int64", "object", "U9", "V8", None)),
    *((FloatArray, an_array(shape=wrong)) for wrong in ([3], [-2], [2.0], [10**12, 0], [1] * 99)),
    *((FloatArray, an_array(entries=wrong)) for wrong in ([1.0, True], [1.0, "nan"], [[1.0, 2.0]])),
    *((NDArray[Any], an_array(type="int8", entries=wrong)) for wrong in ([1, 300], [1, 2.0])),
    (NDArray[Any], an_array(type="str", entries=["a", 1])),
]  # fmt: skip


@pytest.mark.parametrize(("hint", "content"), WRONG, ids=str)
def test_wrong_values_are_clear_errors(hint, content):
    with pytest.raises(ValueError, match="must") as error:
        decode("it", hint, content)
    assert error.value.__context__ is None or error.value.__suppress_context__


def test_deep_nesting_is_a_clear_error():
    """Both in text and in a dict: the type of a field may hold itself."""
    content, hint = 1, Any
    for _ in range(100_000):
        content = [content]
    for _ in range(2_000):
        hint = list[hint]
    with pytest.raises(ValueError, match="must not be nested so deeply"):
        decode("it", hint, content)
    with pytest.raises(ValueError, match="must be JSON text"):
        from_text("it", "[" * 100_000)


def test_types_of_the_table_are_frozen_dataclasses_of_this_package_or_have_a_form_of_their_own():
    for name in TYPES:
        kind = inner_package.type_named(name)
        assert name in (kind.__name__, f"{kind.__name__}Loss")
        assert kind.__module__.startswith("skdp.")
        if not hasattr(kind, "from_dict"):
            assert kind.__dataclass_params__.frozen
            assert hints_of(kind) or name == "LogisticLoss"  # which has no parameter
    assert "object" in ARRAYS


# Files that are broken at random


def model(kind, target, **parameters):
    domain = Domain(
        {"a": (0, 9), "b": Spline(0, 1, knots=2), "c": ["x", "y", "z"], "d": ["u", "v"]}, target
    ).interact("c", "d")
    X, y = domain.sample(300, random_state=0, with_target=True)
    return kind(domain=domain, random_state=0, **parameters).fit(X, y)


GUARANTEE = Guarantee(1.0, 1e-6, assumptions=("a",), void_because=("b",))
LOSSES = tuple[tuple[Profile, int], ...]


def losses_of(content):
    return decode("it", LOSSES, content)


def proved(content):
    """A model whose proof holds or fails: no other error."""
    found = skdp.load_model(content)
    with suppress(NotPrivate):
        check_proof(found)
    return found


GREEDY = {"order": "greedy", "delta": 1e-6, "mechanism": "laplace"}
FILES = {
    "classifier": (model(skdp.DPLogisticRegression, ["no", "yes"]).to_dict(), proved),
    "regressor": (model(DPLinearRegression, (0, 1), mechanism="matrix").to_dict(), proved),
    "moments": (model(DPLinearRegression, (0, 1), delta=1e-6).to_dict(), proved),
    "descent": (model(DPCoordinateDescentRegressor, (0, 1), **GREEDY).to_dict(), proved),
    "domain": (model(DPLinearRegression, (0, 1)).domain.encoded.to_dict(), Domain.from_dict),
    "guarantee": (GUARANTEE.to_dict(), Guarantee.from_dict),
    "losses": (encode("it", ((LOSS, 1), (FINITE, 3))), losses_of),
}  # fmt: skip
BROKEN = [None, True, False, 0, 1, -1, 2, 0.5, -1e308, 10**400, math.nan, "inf", "", "x", "Laplace"]
BROKEN += [[], {}, [[]], [1.0], {"kind": "Laplace", "scale": 1.0}, {"kind": "eval"}, ["x", "y"]]


def mutated(content, rng):
    """One to three random changes: other values, parts of other places, missing and new entries."""
    content = copy.deepcopy(content)
    for _ in range(rng.randint(1, 3)):
        found = [path for path in paths(content) if path]
        if not found:
            return content
        *above, key = rng.choice(found)
        part = reduce(getitem, above, content)
        other = reduce(getitem, rng.choice(found), content)
        match rng.randrange(5):
            case 0:
                part[key] = copy.deepcopy(rng.choice(BROKEN))
            case 1:
                part[key] = copy.deepcopy(other)
            case 2:
                del part[key]
            case 3 if isinstance(part, dict):
                part[rng.choice(["unknown", "kind", "version"])] = copy.deepcopy(other)
            case _:
                if isinstance(part[key], int | float) and abs(part[key]) < 1e300:
                    part[key] = part[key] * rng.choice([-1, 0.5, 2, 1e200])
    return content


def written(found):
    return found.to_dict() if hasattr(found, "to_dict") else encode("it", found)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("count", [150, pytest.param(3000, marks=pytest.mark.slow("many files"))])
@pytest.mark.filterwarnings("error")
def test_a_file_that_was_changed_at_random_is_refused_or_read(name, count):
    content, read = FILES[name]
    rng, refused = random.Random(name), 0
    for _ in range(count):
        changed = mutated(content, rng)
        found, error = outcome(read, changed)
        if error is None:  # an object that is written and read again
            again = json.loads(to_text(written(found)))
            assert written(read(again)) == again
        else:
            assert "must" in str(error), changed
            refused += 1
    assert count / 3 < refused < count
