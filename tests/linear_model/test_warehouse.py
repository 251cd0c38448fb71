"""Models as SQL and as ONNX predict what they predict in Python."""

import sqlite3

import duckdb
import numpy as np
import onnxruntime
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.exceptions import NotFittedError

import skdp
from skdp import Domain, DPHuberRegressor, DPLogisticRegression, PrivateSearchCV, from_json
from skdp.domain import Spline
from skdp.domain.columns import Levels

N_ROWS = 10_000
ALL_KINDS = {
    "age": (17, 90),
    'pay "net"': (0, 1e5),
    "größe, m": ["x", "y'z", "ünï 😀", "--", "1"],
    "kind": [3, 0, 2.5],
    "flag": [False, True],
    "curve": Spline(0, 100, knots=3, degree=1),
    "smooth": Spline(-1, 2, knots=(0.25, 1.0), degree=3),
    "steps": Spline(0, 6, knots=5, degree=0),
}
RULES = {
    "age": "indicator",
    'pay "net"': 250.0,
    "größe, m": "indicator",
    "kind": "indicator",
    "curve": "indicator",
    "smooth": "middle",
    "steps": 4.5,
}
FEW = {"age": (17, 90), "sex": ["f", "m"], "curve": Spline(0, 10, knots=4)}


def cells(column, n, rng):
    """Cells within the declaration and outside it, with ties between nodes, and missing ones."""
    if isinstance(column, Levels):
        values = [*column.levels, *column.levels]
        kinds = {*map(type, column.levels)}
        if kinds == {str}:
            # If an empty text is a level, ONNX has no missing cells.
            values += ["unlisted", "Ünlisted '", *(["", None] if "" not in column.levels else [])]
        elif kinds != {bool}:
            values = [*map(float, values), 77.0, np.nan]
        return pd.Series([values[k] for k in rng.integers(len(values), size=n)])
    low, high = column.lower, column.upper
    wide = rng.uniform(low - (high - low), high + (high - low), n)
    inside = low + (high - low) * rng.integers(0, 257, n) / 256
    found = np.where(rng.random(n) < 0.5, wide, inside)
    found[rng.random(n) < 0.02] = rng.choice([-1e30, 1e30, 0.0, low, high])
    if column.missing is not None:
        found[rng.random(n) < 0.1] = np.nan
    return pd.Series(found)


def rows(domain, n=N_ROWS, seed=1):
    rng, columns = np.random.default_rng(seed), zip(domain._labels, domain._columns, strict=True)
    return pd.DataFrame({name: cells(column, n, rng) for name, column in columns})


def fitted(estimator, domain, seed=0, **parameters):
    X, y = domain.sample(1000, random_state=seed, with_target=True)
    model = estimator(domain=domain, epsilon=8.0, random_state=seed, **parameters)
    return model.fit(X, y)


def in_duckdb(table, expressions):
    with duckdb.connect() as database:
        # Numbers have NaN, and texts have nulls. SQLite has nulls only.
        columns = {
            name: pa.array(own.array, from_pandas=own.dtype == object)
            for name, own in table.items()
        }
        database.register("t", pa.table(columns))
        listed = ", ".join(f"{own} AS p{k}" for k, own in enumerate(expressions))
        found = database.sql(f"SELECT {listed} FROM t").fetchnumpy()
    return np.column_stack([np.ma.filled(own, None) for own in found.values()])


def in_sqlite(table, expressions):
    database = sqlite3.connect(":memory:")
    table.to_sql("t", database, index=False)
    return np.array(database.execute(f"SELECT {', '.join(expressions)} FROM t").fetchall())


def in_onnx(model, table):
    session = onnxruntime.InferenceSession(model.to_onnx().SerializeToString())
    fed = {}
    for place in session.get_inputs():
        own, is_text = table[place.name], place.type == "tensor(string)"
        own = own.fillna("").to_numpy(object) if is_text else own.to_numpy(float)
        fed[place.name] = own[:, None]
        assert place.shape == ["n", 1]
    return dict(
        zip([own.name for own in session.get_outputs()], session.run(None, fed), strict=True)
    )


def check(model, table=None):
    """SQL in two databases, and ONNX, give the predictions of Python."""
    table = rows(model._design.domain) if table is None else table
    given = table if model._design.domain.names else table.to_numpy()
    graph = in_onnx(model, table)
    for output in ("predict", "predict_proba")[: 1 + hasattr(model, "classes_")]:
        expected, written = getattr(model, output)(given), model.to_sql(output)
        assert isinstance(written, str) == (expected.ndim == 1)
        found = [
            run(table, [written] if expected.ndim == 1 else written)
            for run in (in_duckdb, in_sqlite)
        ]
        assert graph[output].shape == expected.shape
        for own in (*(own.reshape(expected.shape) for own in found), graph[output]):
            if output == "predict" and hasattr(model, "classes_"):
                assert (own == expected)[apart(model, given)].all()
            else:
                scale = np.ptp(expected) or 1.0
                np.testing.assert_allclose(
                    own.astype(float), expected, rtol=1e-6, atol=1e-9 * scale
                )
    return table


def apart(model, table):
    """Whether the label does not depend on rounding."""
    z = np.sort(np.column_stack([model.decision_function(table)]), axis=1)
    return (abs(z[:, -1] - z[:, -2]) if z.shape[1] > 1 else abs(z[:, 0])) > 1e-9


SEVERAL = {"quantile": [0.1, 0.5, 0.9]}
CASES = [
    ("labels", DPLogisticRegression, {}),
    ("three", DPLogisticRegression, {}),
    ("three", DPLogisticRegression, {"loss": "sharp"}),
    ("labels", skdp.DPCoordinateDescentClassifier, {}),
    ("three", skdp.DPCoordinateDescentClassifier, {}),
    ("number", skdp.DPCoordinateDescentRegressor, {}),
    ("number", DPHuberRegressor, {"scaling_share": 0.2}),
    ("number", DPHuberRegressor, {"fit_intercept": False}),
    ("number", skdp.DPLinearRegression, {}),
    ("count", skdp.DPPoissonRegressor, {}),
    ("count", skdp.DPGammaRegressor, {"scaling_share": 0.2}),
    ("number", skdp.DPQuantileRegressor, {}),
    ("number", skdp.DPQuantileRegressor, SEVERAL),
]
TARGETS = {"labels": ["no", "it's"], "three": ["a", "b", "ç"], "number": (-5, 20), "count": (0, 30)}


@pytest.mark.parametrize(("target", "estimator", "parameters"), CASES)
def test_all_estimators(target, estimator, parameters):
    """With missing cells, unlisted levels and numbers outside the bounds; also read from JSON."""
    domain = Domain(ALL_KINDS, target=TARGETS[target], missing=RULES)
    model = fitted(estimator, domain, **parameters)
    check(model)
    again = from_json(model.to_json())
    assert again.to_sql() == model.to_sql()
    assert again.to_onnx() == model.to_onnx()


def box(**columns):
    return Domain(columns, target=(0, 10))


MORE = {"a": (0, 4), "b": Spline(0, 4, knots=2), "l": ["x", "y", "z"], "m": ["u", "v"]}
ODD = {
    "no names": Domain.box([0, -1], [1, 2], target=(0, 10)),
    "no domain's scale": Domain.unit_box(3, target=(-1, 1)),
    "one number": box(x=(0, 1)),
    "one level": box(x=(0, 1), l=["only"]),
    "other": Domain({"l": ["x", "y", "?"], "x": (-1, 1)}, target=(0, 1), other={"l": "?"}),
    "other is missing": Domain(
        {"l": ["x", "y", "?"]}, target=(0, 1), other={"l": "?"}, missing="indicator"
    ),
    "an empty level": box(l=["x", "", "y"]),
    "quotes": box(**{"'": (0, 1), '"': (0, 1), '""': ["'", "''", '"', "\\", "\\'"]}),
    "names of words": box(**{"select": (0, 1), "group by": ["NULL", "CASE", "a; --"], " ": (0, 1)}),
    "names of lines": box(**{"a\nb": (0, 1), "tab\t": ["x\ny", " x", "x "], "%s {} \\": (0, 2)}),
    "unicode": box(**{"年齢": (0, 1), "é": ["é", "e\u0301", "\u2028", "ß", "SS"]}),
    "names of a graph": box(**{"skdp": (0, 1), "n": (0, 1), "n_1": ["x", "y"]}),
    "case of levels": box(l=["a", "A", "b"]),
    "texts of numbers": box(l=["1", "1.0", "01", "true"]),
    "numbers as levels": box(l=[1, 2, 3.5, -4, 0.1], k=[2**53, 10**15, -7]),
    "numpy's levels": box(l=[*np.arange(3)], k=[*np.array([0.5, 1.5, 2.5])]),
    "bools as levels": box(l=[True, False], k=[False, 7, 3]),
    "narrow bounds": box(x=(1.7e9, 1.7e9 + 86400), z=(1e-30, 2e-30)),
    "wide bounds": box(x=(-1e20, 1e30), z=(-1e-300, 1e-290)),
    "negative bounds": box(x=(-8, -7), z=(-1, 0)),
    "rules of numbers": Domain(
        {"x": (0, 10), "z": (0, 10)}, target=(0, 1), missing={"x": 9.9, "z": "middle"}
    ),
    "unequal knots": box(
        x=Spline(0.1, 0.7, knots=(0.2, 0.21, 0.3)), z=Spline(-3, 1e6, knots=(0.1,), degree=2)
    ),
    "no knots": box(x=Spline(0, 1, knots=0), z=Spline(0, 1, knots=0, degree=3)),
    "ages on ties": box(x=Spline(20, 84, knots=0), z=Spline(0, 90, knots=8)),
    "steps": box(x=Spline(0, 1, knots=1, degree=0), z=Spline(0, 3, knots=(1, 1.5), degree=0)),
    "falling curve": box(x=Spline(0, 1, knots=4, monotone="decreasing"), z=(0, 1)),
    "many levels": box(l=[f"level {k}" for k in range(500)]),
    "many columns": box(**{f"x{k}": (-1, 1) for k in range(300)}),
    "levels x levels": box(**MORE).interact("l", "m"),
    "levels x number": box(**MORE).interact("m", "a"),
    "curve x number": box(**MORE).interact("b", "a"),
    "two interactions": box(**MORE).interact("b", "a").interact("l", "b"),
    "few nodes": box(x=Spline(0, 1, knots=8), z=Spline(0, 2, knots=8)).interact("x", "z"),
    "bent surface": box(x=(0, 1), l=["x", "y"], z=Spline(0, 1, knots=3, degree=0))
    .additive(degree=3).interact("x", "z").interact("l", "x"),
    "missing in interactions": Domain(
        MORE, target=(0, 1), missing={"a": "indicator", "b": 1.0, "l": "indicator"}
    ).interact("a", "l").interact("b", "m"),
}  # fmt: skip


@pytest.mark.parametrize("domain", ODD.values(), ids=ODD)
def test_odd_domains(domain):
    check(fitted(DPHuberRegressor, domain), rows(domain, 2000))


@pytest.mark.parametrize("labels", [[True, False], [0, 1], [-1, 3, 7], [0.5, 1.5], ["", " "]])
def test_labels_of_other_types(labels):
    """The types of ONNX are those of the labels."""
    model = fitted(DPLogisticRegression, Domain({"x": (0, 1)}, target=labels))
    table = rows(model.domain, 500)
    check(model, table)
    predicted = in_onnx(model, table)["predict"]
    assert type(predicted.tolist()[0]) is type(labels[0])


def test_a_missing_number_without_a_rule_gives_no_prediction():
    """In Python it is an error."""
    domain = Domain({"x": (0, 1), "z": Spline(0, 1)}, target=(0, 10))
    model, table = fitted(DPHuberRegressor, domain), pd.DataFrame({"x": [np.nan, 0], "z": [0, 0]})
    assert [*np.isnan(in_onnx(model, table)["predict"])] == [True, False]
    assert [own is None for own in in_sqlite(table, [model.to_sql()])[:, 0]] == [True, False]


def test_extreme_predictors_overflow_nowhere():
    model = fitted(DPLogisticRegression, Domain({"x": (0, 1)}, target=["a", "b", "c"]))
    model._encoded_coef = model._encoded_coef * 1e6
    check(model, rows(model.domain, 500))


def test_the_best_model_of_a_search():
    domain = Domain(FEW, target=["no", "yes"])
    X, y = domain.sample(1000, random_state=0, with_target=True)
    base = DPLogisticRegression(domain=domain)
    search = PrivateSearchCV(base, {"loss": ["logistic", "sharp"]}, epsilon=2.0, random_state=0)
    check(search.fit(X, y).best_estimator_)


def test_a_relation_of_duckdb_is_a_table():
    domain = Domain(FEW, target=["no", "yes"])
    table, y = domain.sample(1000, random_state=0, with_target=True)
    table["y"] = y
    with duckdb.connect() as database:
        database.register("t", table)
        model = DPLogisticRegression(domain=domain, random_state=0)
        model.fit(database.sql("SELECT * FROM t"), target="y")
    again = DPLogisticRegression(domain=domain, random_state=0).fit(table, target="y")
    np.testing.assert_array_equal(model.coef_, again.coef_)
    check(model, table[[*FEW]])


@pytest.mark.parametrize(
    ("domain", "message"),
    [
        (Domain({"l": ["x", 1]}, target=(0, 1)), "levels of 'l' must be all strings, or all"),
        (Domain({"l": [b"x", b"y"]}, target=(0, 1)), "levels of 'l' must be all strings, or all"),
        (Domain({"l": ["x", "\0"]}, target=(0, 1)), "must be valid text without NUL"),
        (Domain({"x\0": (0, 1)}, target=(0, 1)), "must be valid text without NUL"),
        (Domain.l2_ball(2, 1.0, target=(0, 1)), "must bound each column"),
        (Domain(FEW, target=(0, 1)).encoded, "must declare columns that are not encoded yet"),
    ],
)
def test_what_is_refused(domain, message):
    model = fitted(DPHuberRegressor, domain)
    for write in (model.to_sql, model.to_onnx):
        with pytest.raises(ValueError, match=message):
            write()


def test_what_cannot_be_written():
    with pytest.raises(NotFittedError):
        DPHuberRegressor().to_sql()
    model = fitted(DPHuberRegressor, Domain({"x": (0, 1)}, target=(0, 1)))
    with pytest.raises(ValueError, match="output must be"):
        model.to_sql("predict_proba")
    model.__class__ = type("Other", (DPHuberRegressor,), {"__module__": "elsewhere"})
    with pytest.raises(ValueError, match="must be an estimator of skdp"):
        model.to_onnx()


@pytest.mark.parametrize("name", ["predict", "skdp:0", "skdp:1.0"])
def test_columns_with_the_names_of_a_graph(name):
    """They would stand for its results or its constants. In SQL they are names like others."""
    model = fitted(DPHuberRegressor, Domain({name: (0, 1)}, target=(0, 1)))
    assert name in model.to_sql()
    with pytest.raises(ValueError, match="names of columns must not be"):
        model.to_onnx()
