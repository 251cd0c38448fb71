"""Fitted models as SQL expressions and as ONNX graphs, which predict where the rows are.

Predictions are written once, by operators of ONNX; a `Writer` makes SQL or nodes of them. Numbers
are in the user's units.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial, reduce
from itertools import pairwise
from typing import Any, ClassVar, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator

from skdp._codec import is_plain, package_version
from skdp.domain.columns import Levels, Number
from skdp.domain.splines import STEPS, Interaction, Spline
from skdp.trusted.arrays import Array, FloatArray
from skdp.trusted.checks import check_choice, fail, optional_module

# The columns that have an effect together; values, with an axis for each column and one for models;
# and the number of steps between two knots. The axis of levels or of a curve has levels or nodes
# and then a missing cell, that of a number its slope and a missing cell. NaN means: without a rule.
Part: TypeAlias = tuple[Sequence[tuple[str, Number | Levels | Spline]], FloatArray, int]
Written: TypeAlias = str | float  # an expression or the name of a result; or a constant
# The version of ONNX's operators, and that of its format.
OPSET, IR_VERSION = 19, 9
# Databases refuse exponentials that overflow, and some refuse those that underflow.
EXPONENT = (-700.0, 700.0)
# SQL orders NaN above all numbers: what is not below this number is missing.
ABOVE = 1e308
PREDICTIONS = "predict", "predict_proba"


def part_of(names: Sequence[str], column: object, bounds: Any, coef: FloatArray) -> Part:
    """Return what a column or an interaction, with coefficients (n_out, models), adds."""
    if isinstance(column, Number):
        low, high = map(float, bounds)
        fill = column.missing if isinstance(column.missing, float) else column.centre
        fill = math.nan if column.missing is None else min(max(fill, low), high)
        values = np.stack([coef[0], coef[0] * fill + coef[1:].sum(axis=0)])
        return [(names[0], Number(low, high))], values, STEPS
    if not isinstance(column, Levels | Spline | Interaction):
        remedy = "Fit the model with the domain itself, and not with domain.encoded."
        raise fail("domain", "declare columns that are not encoded yet", None, remedy)
    table = getattr(column, "table", None)
    values = np.vstack([np.zeros(coef.shape[1]), coef]) if table is None else table @ coef
    columns: tuple[Any, ...] = (column,)
    steps, near = STEPS, [np.arange(len(values))]
    if isinstance(column, Interaction):
        columns, steps, near = column._columns, column.steps or STEPS, column._near
        values = values.reshape(*column.counts, -1)
    for axis, own in enumerate(columns):
        is_curve = isinstance(own, Spline)
        # A missing cell is read as one of the others, or has a position of its own.
        known, cells = len(own.nodes if is_curve else own.levels), [math.nan if is_curve else None]
        missing = own.positions(np.array(cells) if is_curve else cells)[0]
        places = [*range(near[axis][known - 1] + 1), near[axis][missing]]
        values = np.moveaxis(np.take(values, places, axis), axis, 0)
        if is_curve and own.missing is None:
            values[-1] = math.nan
        values = np.moveaxis(values, 0, axis)
    return [*zip(names, columns, strict=True)], values, steps


class Writer:
    """Writes the predictions of a fitted model."""

    __call__: Callable[..., str]  # an operator with its inputs
    cell: Callable[..., str]
    constant: Callable[[object], str]
    case: Callable[..., str]  # the value of the first condition that is true
    lookup: Callable[[str, list[Written]], str]  # the value at a place from 0

    def __init__(self, model: BaseEstimator) -> None:
        domain, encoded = model._design.domain, (model._encoded_coef, model._encoded_intercept)
        if domain.is_ball:
            raise fail("domain", "bound each column, and not the length of rows, for SQL or ONNX")
        scaled = not (hasattr(model, "classes_") or hasattr(model, "_mean"))
        coef, self.intercept = domain.decode_coef(*encoded, regression=scaled)
        clipped = None if model._clipping is None else iter(model._clipping.in_units(domain))
        self.model, self.parts = model, []
        for column, read, write in domain._layout.placed:
            bounds = None
            if isinstance(column, Number):
                bounds = (column.lower, column.upper) if clipped is None else next(clipped)
            own = domain._labels[read], column, bounds, coef[:, write].T
            self.parts.append(part_of(*own))

    def predictor(
        self, weights: FloatArray, bounds: tuple[float, float] | None = None, shift: float = 0.0
    ) -> str:
        """Return a weighted sum of the predictors, clipped to bounds unless it is within them."""
        constant = float(self.intercept @ weights) + shift
        terms, low, high = [], constant, constant
        for columns, values, steps in self.parts:
            own, column = values @ weights, columns[0][1]
            terms.append(self.term(columns, steps, own))
            if isinstance(column, Number):
                own = np.array([own[0] * column.lower, own[0] * column.upper, own[1]])
            low, high = low + float(np.nanmin(own)), high + float(np.nanmax(own))
        z = self("Sum", constant, *terms)
        if bounds is None or (bounds[0] <= low and high <= bounds[1]):
            return z
        low, high = map(float, bounds)
        return self.case([(self("Less", z, low), low), (self("Less", high, z), high)], z)

    def term(
        self, columns: Sequence[tuple[str, Number | Levels | Spline]], steps: int, values: Array
    ) -> Written:
        """Return what columns add, for ``values`` of a single predictor."""
        if not columns or np.isnan(values).all():
            return float(values.flat[0])
        (name, column), then = columns[0], partial(self.term, columns[1:], steps)
        if isinstance(column, Levels):
            levels, missing = alike(f"levels of {name!r}", column.levels), then(values[-1])
            is_text, is_bool = (isinstance(levels[0], kind) for kind in (str, bool))
            cell = self.cell(name, is_text)
            cases = [
                (self("Equal", cell, self.constant(level)), then(own))
                for level, own in zip(levels, values, strict=False)
            ]
            if column.missing is not None:
                if is_text and "" not in levels:
                    cases.append((self("Equal", cell, self.constant("")), missing))
                # Nulls are not equal to themselves, but NaN may be.
                is_known = ("Equal", cell, cell) if is_text or is_bool else ("Less", cell, ABOVE)
                cases.append((self(*is_known), then(values[column._other])))
            return self.case(cases, missing)
        cell, (lower, upper) = self.cell(name), (column.lower, column.upper)
        if isinstance(column, Number):
            low, high, cases = values[0] * lower, values[0] * upper, []
            cases.append((self("Less", cell, upper), self("Mul", values[0], cell)))
        else:
            low, high, cases = then(values[0]), then(values[-2]), []
            width = steps if column.degree else 1
            for k, ends in enumerate(pairwise(column.breaks.tolist())):
                own = values[k * width : (k + 1) * width + (column.degree > 0)]
                cases.append((self("Less", cell, ends[1]), self.piece(cell, *ends, own, then)))
        cases = [(self("LessOrEqual", cell, lower), low), *cases, (self("Less", cell, ABOVE), high)]
        return self.case(cases, then(values[-1]))

    def piece(
        self, cell: str, start: float, stop: float, values: Array, then: Callable[[Array], Written]
    ) -> Written:
        """Return a curve between two knots, linear in the number of the nearest node or a table."""
        steps, first = len(values) - 1, values[0]
        change = (values[-1] - first) / max(1, steps)
        bend = np.abs(values - first - np.multiply.outer(np.arange(steps + 1), change))
        is_bent = np.nanmax(bend) > 1e-13 * np.nanmax(np.abs(values))
        if not is_bent and not np.nanmax(np.abs(change)) > 0:
            return then(first)
        # `Spline.positions` has the same rounding errors; divisors are powers of two times its own.
        # onnxruntime leaves out divisions by numbers near 1, so the divisor is negative.
        moved = self("Sum", self("Mul", self("Double", cell), -0.5), start / 2)
        node = self("Div", moved, (start / 2 - stop / 2) / STEPS)
        node = self("Round", node)
        if (share := steps / STEPS) < 1:  # the nearest of fewer nodes, and of two the first
            node = self("Round", self("Sum", self("Mul", node, share), -share / 2))
        if is_bent:
            return self.lookup(node, [*map(then, values)])
        line: str = self("Sum", then(first), self("Mul", then(change), node))
        return line

    def results(self, output: str) -> list[str]:
        """Return each column of an output."""
        model, z, count = self.model, self.predictor, len(self.intercept)
        units = [*np.eye(count)]
        if hasattr(model, "classes_"):
            # The predictor of the first of two labels is 0.
            units = [np.zeros(1), np.ones(1)] if count == 1 else units
            pairs = [(own, [other for other in units if other is not own]) for own in units]
            if output == "predict":
                ahead = [[self("LessOrEqual", 0.0, z(a - b)) for b in rest] for a, rest in pairs]
                labels = map(self.constant, alike("labels", model.classes_))
                best = [reduce(partial(self, "And"), own) for own in ahead]
                return [self.case([*zip(best, labels, strict=True)])]
            if count == 1 or hasattr(model, "normalizer_"):
                a = getattr(model, "normalizer_", 1.0)
                found = [self.share([b - own for b in rest], a) for own, rest in pairs]
                return [self("Sum", own, (1 - a) / count) if a < 1 else own for own in found]
            apart = [self.share([-own]) for own in units]
            return [self("Div", own, self("Sum", *apart)) for own in apart]
        if hasattr(model, "_mean"):
            half = float(model.target_bounds_[1]) / 2
            u = z(units[0], EXPONENT, -math.log(half))
            low, high = (self("Mul", s * half, self("Exp", self("Mul", s, u))) for s in (1.0, -1.0))
            rising, falling = self("LessOrEqual", u, 0.0), self("Less", 0.0, u)
            return [self.case([(rising, low), (falling, self("Sum", 2 * half, high))])]
        found = [z(own, model._design.domain.target_bounds) for own in units]
        if count == 1:
            return found
        # Quantiles are sorted by their ranks: the number of others that are below.
        ranks = []
        for j, own in enumerate(units):
            signs = ["LessOrEqual"] * j + ["Less"] * (count - j)
            below = [
                self.case([(self(sign, z(other - own), 0.0), 1.0)], 0.0)
                for sign, other in zip(signs, units, strict=True)
                if other is not own
            ]
            ranks.append(self("Sum", *below))
        cases = [[self("Equal", own, float(k)) for own in ranks] for k in range(count)]
        return [self.case([*zip(own, found, strict=True)]) for own in cases]

    def share(self, weights: list[FloatArray], a: float = 1.0) -> str:
        """Return a / (1 + the exponentials of weighted sums)."""
        odds = (self("Exp", self.predictor(own, EXPONENT)) for own in weights)
        return self("Div", a, self("Sum", 1.0, *odds))


def checked(text: str) -> str:
    if "\0" in text or any("\ud800" <= c <= "\udfff" for c in text):
        raise fail("names, levels and labels", "be valid text without NUL", text)
    return text


class Sql(Writer):
    """Writes expressions as texts."""

    # Adding and subtracting 2^52 rounds to an integer, and ties to an even one: the functions of
    # databases round ties in different ways. The quotient of two integers may be an integer.
    patterns: ClassVar = {
        "Mul": "{} * {}",
        "Div": "{} / {}",
        "Less": "{} < {}",
        "LessOrEqual": "{} <= {}",
        "Equal": "{} = {}",
        "And": "{} AND {}",
        "Exp": "EXP({})",
        "When": "WHEN {} THEN {}",
        "Else": "ELSE {} END",
        "Double": "CAST({} AS DOUBLE PRECISION)",
        "Round": "({} + 4503599627370496e0 - 4503599627370496e0)",
    }

    def __call__(self, operator: str, *inputs: Written) -> str:
        texts = [self.constant(own) if isinstance(own, float) else own for own in inputs]
        joined = "({})".format("\n+ ".join(texts))
        return joined if operator == "Sum" else str(self.patterns[operator].format(*texts))

    def cell(self, name: str, is_text: bool = False) -> str:
        return '"{}"'.format(checked(name).replace('"', '""'))

    def constant(self, value: object) -> str:
        if isinstance(value, str):
            return "'{}'".format(checked(value).replace("'", "''"))
        if isinstance(value, float):
            # Without an exponent it would be a decimal number in some databases.
            text = repr(float(value)).removesuffix(".0")
            return "NULL" if math.isnan(value) else text if "e" in text else f"{text}e0"
        return str(value).upper()

    def case(
        self,
        cases: Iterable[tuple[Written, Written]],
        otherwise: Written = math.nan,
        place: str = "",
    ) -> str:
        texts = [*(self("When", *own) for own in cases), self("Else", otherwise)]
        return f"CASE {place}" + "\n  ".join(texts)

    def lookup(self, place: str, values: list[Written]) -> str:
        return self.case([(float(k), own) for k, own in enumerate(values)], place=f"{place} ")


class Onnx(Writer):
    """Writes the nodes of a graph, of which none occurs twice. Results have the shape (n, 1)."""

    def __init__(self, model: BaseEstimator) -> None:
        super().__init__(model)
        self.onnx = optional_module("onnx", "to write a graph", "onnx")
        self.are_texts: dict[str, bool] = {}
        self.nodes: dict[object, Any] = {}
        self.constants: dict[str, object] = {}

    def __call__(self, operator: str, *inputs: object, **attributes: Any) -> str:
        if operator == "Double":
            return str(inputs[0])
        names = [own if isinstance(own, str) else self.constant(own) for own in inputs]
        key = operator, *names, *attributes.items()
        if key not in self.nodes:
            result, make = f"skdp:{len(self.nodes)}", self.onnx.helper.make_node
            self.nodes[key] = make(operator, names, [result], **attributes)
        return str(self.nodes[key].output[0])

    def predictor(
        self, weights: FloatArray, bounds: tuple[float, float] | None = None, shift: float = 0.0
    ) -> str:
        units, of_unit = np.eye(len(weights)), super().predictor
        if (weights == units).all(axis=1).any():
            return of_unit(weights, bounds, shift)
        pairs = [(float(own), unit) for own, unit in zip(weights, units, strict=True) if own]
        z = self("Sum", *(self("Mul", own, of_unit(unit)) for own, unit in pairs))
        return z if bounds is None else self("Clip", z, *bounds)

    def cell(self, name: str, is_text: bool = False) -> str:
        if name in PREDICTIONS or name.startswith("skdp:"):  # names of results and constants
            raise fail("names of columns", "not be names of the graph, or begin with 'skdp:'", name)
        self.are_texts[checked(name)] = is_text
        return name

    def constant(self, value: object) -> str:
        cells = np.asarray(value, float if isinstance(value, int) else None)
        name = f"skdp:{cells.tolist()!r}"
        if isinstance(value, str):
            kind, text = self.onnx.TensorProto.STRING, checked(value).encode()
            self.constants[name] = self.onnx.helper.make_tensor(name, kind, [], [text])
        else:
            self.constants[name] = self.onnx.numpy_helper.from_array(cells, name)
        return name

    def case(
        self, cases: Iterable[tuple[Written, Written]], otherwise: Written | None = None
    ) -> str:
        *whens, last = cases if otherwise is None else [*cases, ("", otherwise)]
        return str(reduce(lambda rest, own: self("Where", *own, rest), reversed(whens), last[1]))

    def lookup(self, place: str, values: list[Written]) -> str:
        cases = [(self("Equal", place, float(k)), own) for k, own in enumerate(values)]
        if not all(isinstance(own, float) for own in values):
            return self.case(cases)
        # Places of cells outside the piece are not used, but must exist.
        inside = self("LessOrEqual", 0.0, place), self("Less", place, float(len(values)))
        place = self("Where", self("And", *inside), place, 0.0)
        place = self("Cast", place, to=self.onnx.TensorProto.INT64)
        return self("Gather", np.array(values), place)


def alike(name: str, values: Iterable[Any]) -> list[Any]:
    """Return values of Python of one type, or numbers."""
    found = [own.item() if isinstance(own, np.generic) else own for own in values]
    kinds = {*map(type, found)}
    if not all(map(is_plain, found)) or (str in kinds and len(kinds) > 1):
        raise fail(name, "be all strings, or all finite numbers or bools", found)
    return found if len(kinds) == 1 else [own + 0 for own in found]


def to_sql(model: BaseEstimator, output: str) -> str | list[str]:
    check_choice("output", output, PREDICTIONS[: 1 + hasattr(model, "classes_")])
    found = Sql(model).results(output)
    return found if len(found) > 1 else found[0]


def to_onnx(model: BaseEstimator) -> Any:
    write, outputs = Onnx(model), []
    onnx, kinds, helper = write.onnx, write.onnx.TensorProto, write.onnx.helper
    types = {str: kinds.STRING, int: kinds.INT64, bool: kinds.BOOL, float: kinds.DOUBLE}
    for name in PREDICTIONS[: 1 + hasattr(model, "classes_")]:
        labels = model.classes_ if hasattr(model, "classes_") and name == "predict" else [0.0]
        columns, kind = write.results(name), types[type(alike("labels", labels)[0])]
        found, shape = write("Concat", *columns, axis=1), ["n", len(columns)]
        if len(columns) == 1:
            found, shape = write("Squeeze", found, np.array([1])), ["n"]
        if kind != kinds.STRING:
            found = write("Cast", found, to=kind)
        write.nodes[name] = helper.make_node("Identity", [found], [name])
        outputs.append(helper.make_tensor_value_info(name, kind, shape))
    inputs = [
        helper.make_tensor_value_info(name, kinds.STRING if is_text else kinds.DOUBLE, ["n", 1])
        for name, is_text in write.are_texts.items()
    ]
    title, constants = type(model).__name__, [*write.constants.values()]
    graph = helper.make_graph([*write.nodes.values()], title, inputs, outputs, constants)
    facts = {"producer_name": "skdp", "producer_version": package_version()}
    opset = helper.make_opsetid("", OPSET)
    found = helper.make_model(graph, opset_imports=[opset], ir_version=IR_VERSION, **facts)
    onnx.checker.check_model(found)
    return found
