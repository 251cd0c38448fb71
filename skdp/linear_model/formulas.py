"""Fitted models as SQL expressions and as ONNX graphs, which predict where the rows are.

Both are written from the same `Formula`: what each column adds to the linear predictors, in the
user's units.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from skdp._codec import is_plain, package_version
from skdp.domain.columns import Levels, Number
from skdp.domain.splines import STEPS, Interaction, Spline
from skdp.trusted.arrays import Array, FloatArray
from skdp.trusted.checks import check_choice, fail, optional_module

Column: TypeAlias = Number | Levels | Spline
# The version of ONNX's operators, and that of its format.
OPSET, IR_VERSION = 19, 9
# Databases refuse exponentials that overflow, and some refuse those that underflow.
_EXPONENT = (-700.0, 700.0)
# SQL orders NaN above all numbers: what is not below this number is missing.
_ABOVE = "1e308"
# Where a domain bounds the length of rows, the squares of their numbers must not overflow.
_LONGEST = 1e150
# Adding and subtracting 2^52 rounds to an integer, and ties to an even one, as `Spline.positions`
# does. The functions of databases round ties in different ways.
_ROUNDED = "({} + 4503599627370496e0 - 4503599627370496e0)"


@dataclass(frozen=True, eq=False)
class Part:
    """What a column, or the joint effect of two, adds to the linear predictors.

    ``values`` has an axis for each column, and one for the models. The axis of levels or of a curve
    has their levels or nodes and at the end a missing cell, that of a number its slope and a
    missing cell. NaN stands for missing cells without a rule.
    """

    columns: tuple[tuple[str, Column], ...]
    values: FloatArray
    steps: int = STEPS  # between two knots of a curve


@dataclass(frozen=True, eq=False)
class Formula:
    """Linear predictors in the user's units: intercepts, (models,), and parts that are added.

    Rows of numbers that are longer than a ``radius`` are scaled to this length.
    """

    intercept: FloatArray
    parts: list[Part]
    radius: float | None

    @classmethod
    def of(cls, model: Any) -> Formula:
        domain, encoded = model._design.domain, (model._encoded_coef, model._encoded_intercept)
        scaled = not (hasattr(model, "classes_") or hasattr(model, "_mean"))
        coef, intercept = domain.decode_coef(*encoded, regression=scaled)
        bounds = None if model._clipping is None else iter(model._clipping.in_units(domain))
        parts = []
        for column, read, write in domain._layout.placed:
            names, own = domain._labels[read], coef[:, write].T
            if isinstance(column, Number):
                low, high = (column.lower, column.upper) if bounds is None else next(bounds)
                low, high = (-_LONGEST, _LONGEST) if domain.is_ball else (float(low), float(high))
                fill = column.missing if isinstance(column.missing, float) else column.centre
                fill = math.nan if column.missing is None else min(max(fill, low), high)
                values = np.stack([own[0], own[0] * fill + own[1:].sum(axis=0)])
                parts.append(Part(((names[0], Number(low, high)),), values))
            elif isinstance(column, Levels | Spline | Interaction):
                parts.append(_part(names, column, own))
            else:
                remedy = "Fit the model with the domain itself, and not with domain.encoded."
                raise fail("domain", "declare columns that are not encoded yet", None, remedy)
        return cls(intercept, parts, domain.radius)

    def sql(self, weights: FloatArray) -> tuple[str, float, float]:
        """Return a weighted sum of the predictors, and the ends of its range."""
        values, texts, low = [part.values @ weights for part in self.parts], [], 0.0
        high = low = constant = float(self.intercept @ weights)
        for part, own in zip(self.parts, values, strict=True):
            texts.append(_cased(part.columns, part.steps, own))
            column = part.columns[0][1]
            if isinstance(column, Number):
                own = np.array([own[0] * column.lower, own[0] * column.upper, own[1]])
            low, high = low + float(np.nanmin(own)), high + float(np.nanmax(own))
        if self.radius is not None:
            cells = [_cased(part.columns, 0, np.array([1.0, math.nan])) for part in self.parts]
            length, radius = f"SQRT({_sum(f'{x} * {x}' for x in cells)})", _literal(self.radius)
            scale = f"CASE WHEN {length} > {radius} THEN {radius} / {length} ELSE 1e0 END"
            texts = [f"({_sum(texts)}) * {scale}"]
            reach = self.radius * float(np.linalg.norm([own[0] for own in values]))
            low, high = constant - reach, constant + reach
        return f"({_sum([_literal(constant), *texts])})", low, high


def _part(names: tuple[str, ...], column: Levels | Spline | Interaction, coef: FloatArray) -> Part:
    table = getattr(column, "table", None)
    values = np.vstack([np.zeros(coef.shape[1]), coef]) if table is None else table @ coef
    columns: tuple[Any, ...] = (column,)
    steps, near = STEPS, [np.arange(len(values))]
    if isinstance(column, Interaction):
        columns, steps, near = column._columns, column.steps or STEPS, column._near
        values = values.reshape(*column.counts, -1)
    for axis, (name, own) in enumerate(zip(names, columns, strict=True)):
        is_curve = isinstance(own, Spline)
        if not is_curve:
            levels = [*map(_plain, own.levels)]
            if own.kind not in ("strings", "numbers") or not all(map(is_plain, levels)):
                rule = "have levels that are all strings, or all finite numbers or bools"
                raise fail(f"column {name!r}", rule, levels)
        # A missing cell is read as one of the others, or has a position of its own.
        known, cells = len(own.nodes if is_curve else own.levels), [math.nan if is_curve else None]
        missing = own.positions(np.array(cells) if is_curve else cells)[0]
        places = [*range(near[axis][known - 1] + 1), near[axis][missing]]
        values = np.moveaxis(np.take(values, places, axis), axis, 0)
        if is_curve and own.missing is None:
            values[-1] = math.nan
        values = np.moveaxis(values, 0, axis)
    return Part(tuple(zip(names, columns, strict=True)), values, steps)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _text(text: str) -> str:
    if "\0" in text or any("\ud800" <= c <= "\udfff" for c in text):
        raise fail("names, levels and labels", "be valid text without NUL", text)
    return text


# SQL


def to_sql(model: Any, output: str) -> str | list[str]:
    """Return an expression, or one for each column of the output."""
    is_classifier = hasattr(model, "classes_")
    check_choice("output", output, ("predict", "predict_proba")[: 1 + is_classifier])
    formula = Formula.of(model)
    units = [*np.eye(len(formula.intercept))]
    if is_classifier:
        # The predictor of the first of two labels is 0.
        units = [np.zeros(1), np.ones(1)] if len(units) == 1 else units
        return (_label if output == "predict" else _shares)(model, formula, units)
    if hasattr(model, "_mean"):
        half = model.target_bounds_[1] / 2
        formula = replace(formula, intercept=formula.intercept - math.log(half))
        u, start = _within(formula.sql(units[0]), _EXPONENT), _literal(half)
        high = f"{_literal(2 * half)} - {start} * EXP(-{u})"
        return _case([(f"{u} <= 0e0", f"{start} * EXP({u})"), (f"{u} > 0e0", high)])
    found = [_within(formula.sql(own), model._design.domain.target_bounds) for own in units]
    if len(found) == 1:
        return found[0]
    # Quantiles are sorted: each has as its rank the number of those below it.
    ranks = [
        " + ".join(
            f"CASE WHEN {formula.sql(units[k] - units[j])[0]} <{'=' * (k < j)} 0e0 THEN 1 ELSE 0 END"
            for k in range(len(units))
            if k != j
        )
        for j in range(len(units))
    ]
    pairs = [*zip(ranks, found, strict=True)]
    return [_case([(f"{rank} = {k}", own) for rank, own in pairs]) for k in range(len(found))]


def _label(model: Any, formula: Formula, units: list[FloatArray]) -> str:
    """Return the first label whose predictor is not below any other."""
    conditions = [
        " AND ".join(f"{formula.sql(own - other)[0]} >= 0e0" for other in units if other is not own)
        for own in units
    ]
    return _case([*zip(conditions, map(_literal, model.classes_.tolist()), strict=True)])


def _shares(model: Any, formula: Formula, units: list[FloatArray]) -> list[str]:
    """Return probabilities, by differences of predictors: no exponential is needed twice."""

    def odds(weights: FloatArray) -> str:
        return f"EXP({_within(formula.sql(weights), _EXPONENT)})"

    if len(formula.intercept) > 1 and not hasattr(model, "normalizer_"):  # a model for each label
        apart = [f"1e0 / (1e0 + {odds(-own)})" for own in units]
        return [f"{own} / ({_sum(apart)})" for own in apart]
    a = getattr(model, "normalizer_", 1.0)
    shares = [
        f"{_literal(a)} / ({_sum(['1e0', *(odds(k - own) for k in units if k is not own)])})"
        for own in units
    ]
    return [_sum([own, _literal((1 - a) / len(units))]) if a < 1 else own for own in shares]


def _cased(columns: Sequence[tuple[str, Column]], steps: int, values: Array) -> str:
    """Return what columns add, for ``values`` of a single predictor."""
    if not columns or np.isnan(values).all():
        return _literal(values.flat[0])
    (name, column), rest = columns[0], columns[1:]
    cell = '"{}"'.format(_text(name).replace('"', '""'))
    then = partial(_cased, rest, steps)
    if isinstance(column, Levels):
        levels, known = [*map(_plain, column.levels)], f"{cell} < {_ABOVE}"
        if column.kind == "strings":
            known = f"{cell} <> ''"
        elif {*map(type, levels)} == {bool}:
            known = f"{cell} IS NOT NULL"
        else:
            levels = [+level for level in levels]
        pairs = zip(levels, values, strict=False)
        cases = [(f"{cell} = {_literal(level)}", then(own)) for level, own in pairs]
        if column.missing is not None:
            cases.append((known, then(values[column._other])))
        return _case(cases, then(values[-1]))
    low, high = _literal(column.lower), _literal(column.upper)
    if isinstance(column, Number):
        ends = [_literal(values[0] * end) for end in (column.lower, column.upper)]
        cases = [(f"{cell} < {high}", f"{_literal(values[0])} * {cell}")]
    else:
        ends, cases = [then(values[0]), then(values[-2])], []
        width = steps if column.degree else 1
        for k, (start, stop) in enumerate(pairwise(column.breaks.tolist())):
            own = values[k * width : (k + 1) * width + (column.degree > 0)]
            cases.append((f"{cell} < {_literal(stop)}", _piece(cell, start, stop, own, then)))
    first, last = (f"{cell} <= {low}", ends[0]), (f"{cell} < {_ABOVE}", ends[1])
    return _case([first, *cases, last], then(values[-1]))


def _piece(
    cell: str, start: float, stop: float, values: Array, then: Callable[[Array], str]
) -> str:
    """Return a curve between two knots: linear in the position of the node, or all its values."""
    steps, change = len(values) - 1, (values[-1] - values[0]) / max(1, len(values) - 1)
    bend = np.abs(values - values[0] - np.multiply.outer(np.arange(steps + 1), change))
    is_linear = not np.nanmax(bend) > 1e-13 * np.nanmax(np.abs(values))
    if is_linear and not np.nanmax(np.abs(change)) > 0:
        return then(values[0])
    width, shift = _literal(stop / 2 - start / 2), _literal(-start / 2)
    # The type matters in databases where the quotient of integers is an integer.
    half = f"CAST({cell} AS DOUBLE PRECISION) * 0.5e0"
    node = _ROUNDED.format(f"({half} + {shift}) / {width} * {_literal(STEPS)}")
    if steps < STEPS:  # of those of a single curve the nearest node; of two the first
        ratio = STEPS / steps
        node = _ROUNDED.format(f"{node} / {_literal(ratio)} + {_literal(-0.5 / ratio)}")
    if is_linear:
        return f"{then(values[0])} + {then(change)} * {node}"
    cases = [f"WHEN {_literal(k)} THEN {then(own)}" for k, own in enumerate(values[:-1])]
    return f"CASE {node} {' '.join(cases)} ELSE {then(values[-1])} END"


def _case(cases: list[tuple[str, str]], otherwise: str = "NULL") -> str:
    found = "\n  ".join(f"WHEN {condition} THEN {value}" for condition, value in cases)
    return f"CASE {found}{'' if otherwise == 'NULL' else f' ELSE {otherwise}'} END"


def _sum(texts: Iterable[str]) -> str:
    return "\n+ ".join(texts)


def _within(summed: tuple[str, float, float], bounds: tuple[float, float]) -> str:
    """Return a sum that is clipped, unless its range is within the bounds."""
    (text, *ends), (low, high) = summed, map(_literal, bounds)
    if bounds[0] <= ends[0] and ends[1] <= bounds[1]:
        return text
    return f"({_case([(f'{text} <= {low}', low), (f'{text} >= {high}', high)], text)})"


def _literal(value: Any) -> str:
    if isinstance(value, str):
        return "'{}'".format(_text(value).replace("'", "''"))
    if isinstance(value, float) and math.isnan(value):
        return "NULL"
    if isinstance(value, float):
        # Without an exponent databases read it as a decimal number.
        text = repr(float(value)).removesuffix(".0")
        return text if "e" in text else f"{text}e0"
    if not is_plain(value):
        raise fail("labels", "be strings, finite numbers or bools", value)
    return str(value).upper()


# ONNX


class _Graph:
    """The nodes and constants of a graph, while it is written."""

    def __init__(self, onnx: Any) -> None:
        self.onnx, self.nodes, self.constants = onnx, [], []

    def __call__(self, operator: str, *inputs: Any, **attributes: Any) -> str:
        """Add a node, and return the name of its result. Inputs are names or constants."""
        names = [own if isinstance(own, str) else self.constant(own) for own in inputs]
        # A column's name may be any other text.
        result = attributes.pop("to_output", f"skdp:{len(self.nodes)}")
        results = [result, "skdp:places"] if operator == "TopK" else [result]
        self.nodes.append(self.onnx.helper.make_node(operator, names, results, **attributes))
        return result

    def constant(self, value: Any) -> str:
        name = f"skdp:constant:{len(self.constants)}"
        if isinstance(value, list):  # of texts
            kind, texts = self.onnx.TensorProto.STRING, [own.encode() for own in map(_text, value)]
            tensor = self.onnx.helper.make_tensor(name, kind, [len(value)], texts)
        else:
            tensor = self.onnx.numpy_helper.from_array(np.asarray(value), name)
        self.constants.append(tensor)
        return name

    def term(self, part: Part) -> str:
        """Return what a part adds, (n, models)."""
        name, column = part.columns[0]
        if isinstance(column, Number):
            clipped = self("Clip", name, column.lower, column.upper)
            known = self("Mul", clipped, part.values[:1])
            return self("Where", self("IsNaN", name), part.values[1:], known)
        place: Any = 0.0
        for (name, column), size in zip(part.columns, part.values.shape, strict=False):
            own = self.position(name, column, size, part.steps)
            place = self("Add", self("Mul", place, float(size)), own)
        place = self("Reshape", self("Cast", place, to=self.onnx.TensorProto.INT64), np.array([-1]))
        return self("Gather", part.values.reshape(-1, part.values.shape[-1]), place)

    def position(self, name: str, column: Column, size: int, steps: int) -> str:
        """Return the positions of cells in the values of a part, (n, 1), as floats."""
        double = self.onnx.TensorProto.DOUBLE
        if isinstance(column, Levels):
            keys: Any = [*map(_plain, column.levels)]
            if is_text := column.kind == "strings":
                keys = [*keys, ""] if "" not in keys else keys
            else:
                keys = np.array(keys, np.float64)
            moved = np.arange(len(keys), dtype=float)[:, None] - column._other
            found = self("Cast", self("Equal", name, keys), to=double)
            found = self("Add", self("MatMul", found, moved), float(column._other))
            return found if is_text else self("Where", self("IsNaN", name), size - 1.0, found)
        assert isinstance(column, Spline)
        x, breaks = self("Clip", name, column.lower, column.upper), column.breaks
        passed = self("Cast", self("GreaterOrEqual", x, breaks[1:-1]), to=double)
        found = self("ReduceSum", passed, np.array([1]))
        if column.degree:
            at = self("Cast", found, to=self.onnx.TensorProto.INT64)
            start = self("Gather", breaks[:-1] / 2, at)
            width = self("Gather", breaks[1:] / 2 - breaks[:-1] / 2, at)
            share = self("Div", self("Sub", self("Mul", x, 0.5), start), width)
            node = self("Round", self("Mul", share, float(STEPS)))
            if steps < STEPS:  # the nearest of the nodes, and the first of two
                node = self("Mul", self("Sub", node, 0.5), steps / STEPS)
                node = self("Round", node)
            found = self("Add", self("Mul", found, float(steps)), node)
        return self("Where", self("IsNaN", name), size - 1.0, found)


def to_onnx(model: Any) -> Any:
    """Return the graph of a fitted model."""
    onnx = optional_module("onnx", "to write a graph", "onnx")
    formula, graph, double = Formula.of(model), _Graph(onnx), onnx.TensorProto.DOUBLE
    terms = [graph.term(part) for part in formula.parts]
    if formula.radius is not None:
        x = [graph("Clip", part.columns[0][0], -_LONGEST, _LONGEST) for part in formula.parts]
        length = graph("ReduceL2", graph("Concat", *x, axis=1), np.array([1]))
        scale = graph("Div", formula.radius, graph("Max", length, formula.radius))
        terms = [graph("Mul", own, scale) for own in terms]
    z = reduce(partial(graph, "Add"), terms, formula.intercept[None])
    predicted = [double, ["n"]]
    outputs = {"predict": predicted}
    if hasattr(model, "classes_"):
        z = graph("MatMul", z, np.array([[0.0, 1.0]])) if len(formula.intercept) == 1 else z
        predicted[0] = _write_labels(model, graph, z, len(formula.intercept))
        outputs["predict_proba"] = [double, ["n", len(model.classes_)]]
    elif hasattr(model, "_mean"):
        half = float(model.target_bounds_[1]) / 2
        u = graph("Sub", z, math.log(half))
        low = graph("Mul", graph("Exp", u), half)
        high = graph("Sub", 2 * half, graph("Mul", graph("Exp", graph("Neg", u)), half))
        mean = graph("Where", graph("LessOrEqual", u, 0.0), low, high)
        graph("Squeeze", mean, np.array([1]), to_output="predict")
    else:
        z = graph("Clip", z, *map(float, model._design.domain.target_bounds))
        if len(formula.intercept) == 1:
            graph("Squeeze", z, np.array([1]), to_output="predict")
        else:
            count = len(formula.intercept)
            predicted[1] = ["n", count]
            graph("TopK", z, np.array([count]), largest=0, to_output="predict")
    columns = dict(pair for part in formula.parts for pair in part.columns)
    if both := [name for name in columns if name in outputs]:
        raise fail("column names", "not be names of outputs", both)
    string = onnx.TensorProto.STRING
    inputs = [
        (name, string if getattr(own, "kind", None) == "strings" else double, ["n", 1])
        for name, own in columns.items()
    ]
    infos = [
        [onnx.helper.make_tensor_value_info(_text(name), *facts) for name, *facts in ends]
        for ends in (inputs, [(name, *facts) for name, facts in outputs.items()])
    ]
    written = onnx.helper.make_graph(graph.nodes, type(model).__name__, *infos, graph.constants)
    found = onnx.helper.make_model(
        written,
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="skdp",
        producer_version=package_version(),
    )
    onnx.checker.check_model(found)
    return found


def _write_labels(model: Any, graph: _Graph, z: str, n_models: int) -> int:
    """Write labels and probabilities, and return the type of labels."""
    labels, kinds = model.classes_.tolist(), {*map(type, model.classes_.tolist())}
    constant = labels if kinds == {str} else np.array(labels)
    if not (kinds == {str} or kinds in ({int}, {float}, {bool})):
        raise fail("labels", "be strings, integers, floats or bools", labels)
    best = graph("ArgMax", z, axis=1, keepdims=0)
    graph("Gather", constant, best, to_output="predict")
    if n_models > 1 and not hasattr(model, "normalizer_"):
        apart = graph("Sigmoid", graph("Clip", z, *_EXPONENT))
        graph("Div", apart, graph("ReduceSum", apart, np.array([1])), to_output="predict_proba")
    else:
        a = float(getattr(model, "normalizer_", 1.0))
        shares = graph("Mul", graph("Softmax", z, axis=1), a)
        graph("Add", shares, (1 - a) / len(labels), to_output="predict_proba")
    types = {str: "STRING", int: "INT64", float: "DOUBLE", bool: "BOOL"}
    return int(graph.onnx.TensorProto.DataType.Value(types[kinds.pop()]))
