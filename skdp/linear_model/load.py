"""Models from files, dicts and JSON text that `skdp.linear_model.export` wrote.

All entries are checked. Nothing that a file names is imported or run: it can only name one of the
estimators, or `Inference`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from skdp._codec import TYPES, check_keys, decode, document, from_text, hints_of
from skdp.domain import Domain
from skdp.domain.layout import number_units
from skdp.linear_model._inference.table import INTERCEPT, Inference
from skdp.linear_model._objective.solve import ClippingBounds
from skdp.linear_model._objective.theorem import NoisyMinimiser
from skdp.linear_model._shared.design import Design
from skdp.linear_model.coordinate_descent import (
    DPCoordinateDescentClassifier,
    DPCoordinateDescentRegressor,
)
from skdp.linear_model.export import (
    LISTS,
    UNWRITTEN,
    Attributes,
    Encoded,
    InferenceFile,
    InUnits,
    ModelFile,
    check_finite,
)
from skdp.linear_model.huber import DPHuberRegressor
from skdp.linear_model.linear import DPLinearRegression
from skdp.linear_model.logistic import DPLogisticRegression
from skdp.linear_model.losses import Softmax
from skdp.linear_model.poisson import DPGammaRegressor, DPPoissonRegressor
from skdp.linear_model.quantile import DPQuantileRegressor
from skdp.privacy import Guarantee
from skdp.trusted.arrays import FloatArray
from skdp.trusted.certify import Listed
from skdp.trusted.checks import fail
from skdp.trusted.statement import Public

ESTIMATORS = {
    estimator.__name__: estimator
    for estimator in (
        DPCoordinateDescentClassifier,
        DPCoordinateDescentRegressor,
        DPGammaRegressor,
        DPHuberRegressor,
        DPLinearRegression,
        DPLogisticRegression,
        DPPoissonRegressor,
        DPQuantileRegressor,
    )
}
# Greatest size of a file, in bytes, and of a text.
_MOST = 2**28
# Coefficients in the user's units are computed again. Another machine may round differently.
_CLOSE = 1e-9
# Classes of fitted models that are no types of a file.
_FURTHER = {
    "skdp.domain.domain": "DomainEncoder",
    "skdp.domain.layout": "BallProjection BoxProjection Layout Piece",
    "skdp.geometry.moment_layout": "Sorts",
    "skdp.linear_model._moments.solve": "Moments",
    "skdp.linear_model._objective.solve": "ClippingBounds",
    "skdp.linear_model._objective.profiles": "JointProfile RecordLoss SoftmaxRecord",
    "skdp.linear_model._objective.theorem": "OutputNoise",
    "skdp.linear_model._shared.design": "Design Group Roughness",
    "skdp.linear_model._shared.task": "Progress",
    "skdp.linear_model.load": "NotInFile",
    "skdp.trusted.losses": "ProfileLoss",
    "skdp.trusted.noise": "Publication",
    "skdp.trusted.radial": "RadialSum",
    "skdp.trusted.randomness": "Lattice",
}
SKOPS_TYPES = tuple(
    sorted(
        [f"{module}.{name}" for name, module in TYPES.items()]
        + [f"{module}.{name}" for module, names in _FURTHER.items() for name in names.split()]
        + [f"{estimator.__module__}.{name}" for name, estimator in ESTIMATORS.items()]
    )
)
"""Names of the classes in a fitted model, for ``skops.io.load(path, trusted=[*SKOPS_TYPES])``.

These classes contain only numbers, strings and each other, and reading them runs no code. Classes
that you defined and passed as parameters, such as a noise law, are not listed.
"""


class NotInFile:
    """Stands for a parameter that a file does not contain.

    ``fit`` raises an error before anything is spent, until the parameter is set.
    """

    def __repr__(self) -> str:
        return "<not in the file>"


def load_model(source: Mapping[str, Any] | str | Path) -> Any:
    """Return the fitted model or the inference in a file that ``to_json`` wrote.

    Unlike pickle, reading a file never runs code: a broken or malicious file raises an error. The
    file does not prove who wrote it, and `load_model` does not check its guarantee.

    Parameters
    ----------
    source : str, Path or dict
        The path of a regular file of at most 256 MiB, or a result of ``to_dict``. `from_json`
        reads a text.

    Returns
    -------
    estimator
        A fitted model of the same class, which predicts the same numbers as the original model,
        bit for bit. It has the attributes that the file contains, but not the matrix
        ``coef_corr_`` and the objects ``noise_``, ``loss_``, ``history_`` and ``moments_``.
        ``guarantee_`` has no privacy losses (see `skdp.Guarantee.to_dict`).

        The parameters are the same, except that ``random_state`` is None. The ledger, and
        parameters that were objects, must be set before ``fit`` is called again.

    Raises
    ------
    ValueError
        If the file is not a regular file or is too large, or if an entry is unknown, missing, of
        another type or shape, not finite, or contradicts another entry.
    OSError
        If the file cannot be read.

    See Also
    --------
    from_json : Read a model from JSON text.

    Examples
    --------
    >>> import numpy as np
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> from skdp import Domain, DPHuberRegressor
    >>> from skdp.linear_model import load_model
    >>> X = np.random.default_rng(0).uniform(0, 10, size=(1000, 2))
    >>> domain = Domain.box([0, 0], [10, 10], target=(-10, 10))
    >>> model = DPHuberRegressor(domain=domain, random_state=0).fit(X, X[:, 0] - X[:, 1])
    >>> path = Path(mkdtemp()) / "model.json"
    >>> size = path.write_text(model.to_json())
    >>> again = load_model(path)
    >>> print(abs(again.predict(X) - model.predict(X)).max())
    0.0
    >>> again.guarantee_.void_because
    ('the noise came from random_state and not from the operating system',)
    """
    if isinstance(source, Mapping):
        return _read_back(dict(source))
    return _read_back(from_text("the file", _read(source)))


def from_json(text: str) -> Any:
    """Return the fitted model or the inference in a text that ``to_json`` returned.

    Parameters
    ----------
    text : str
        At most 2^28 characters.

    Returns
    -------
    estimator
        The same as `load_model` returns for a file with this text.

    Raises
    ------
    ValueError
        As for `load_model`.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import Domain, DPHuberRegressor
    >>> from skdp.linear_model import from_json
    >>> domain = Domain.unit_box(2, target=(-1, 1))
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(100, 2))
    >>> model = DPHuberRegressor(domain=domain).fit(X, X[:, 0])
    >>> print(abs(from_json(model.to_json()).coef_ - model.coef_).max())
    0.0
    """
    if isinstance(text, str) and len(text) > _MOST:
        raise fail("text", f"have at most {_MOST} characters", len(text))
    return _read_back(from_text("text", text))


def _read_back(content: object) -> Any:
    is_inference = isinstance(content, Mapping) and content.get("kind") == "Inference"
    return _inference(content) if is_inference else _model(content)


def _model(content: Any) -> Any:
    kinds = (*ESTIMATORS, "Inference")
    found = ModelFile(**document("the model", hints_of(ModelFile), content, kinds))
    domain, encoded = found.domain, found.encoded
    model = _with_parameters(ESTIMATORS[content["kind"]], found)
    model.n_features_in_ = domain.n_columns
    if (names := found.feature_names) is not None:
        if len(names) != domain.n_columns:
            raise fail("feature_names", f"have {domain.n_columns} entries", len(names))
        if domain.names is not None and names != list(domain.names):
            raise fail("feature_names", "be the names of the domain's columns")
        model.feature_names_in_ = np.array(names, dtype=object)
    n_models = _set_target(model, domain, found.classes)
    model._design = Design(domain, encoded.with_intercept)
    _check_shape("encoded: coef", encoded.coef, (n_models, domain.n_encoded))
    _check_shape("encoded: intercept", encoded.intercept, (n_models,))
    model._encoded_coef, model._encoded_intercept = encoded.coef, encoded.intercept
    model._clipping = None
    if encoded.bounds is not None:
        model.domain_, model._clipping = domain, _clipping(domain, encoded)
        model.bounds_ = model._clipping.in_units(domain)
        if not hasattr(model, "classes"):
            model.target_bounds_ = model._clipping.target_in_units(domain)
    model._set_coefficients()
    model._records = Design(found.records or domain, encoded.with_intercept)
    model.guarantee_, model.public_, model.releases_ = _proof_of(found, model._records)
    _set_attributes(model, found.attributes)
    _check_shown(found.coefficients, InUnits.of(model), domain)
    return model


def _read(source: object) -> str:
    """Return the text of a file; a device or a pipe may have no end."""
    rule = "be a dict, or the path of a regular file"
    if not isinstance(source, str | Path):
        raise fail("source", rule, type(source))
    if isinstance(source, str) and (source.lstrip().startswith("{") or "\0" in source):
        raise fail("source", rule, remedy="For JSON text call from_json(text).")
    # A pipe without a writer would keep `open` waiting.
    handle = os.open(Path(source), os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise fail("source", rule, str(source))
    with os.fdopen(handle, "rb") as file:
        content = file.read(_MOST + 1)
    if len(content) > _MOST:
        raise fail("the file", f"have at most {_MOST} bytes", remedy="No model is larger.")
    return content.decode("utf-8", errors="replace")


def _with_parameters(estimator: BaseEstimator, found: ModelFile) -> Any:
    names, left_out = estimator().get_params(deep=False), found.left_out
    given = found.parameters
    check_keys("parameters", given, (), names)
    check_keys("left_out", dict.fromkeys(left_out), (), names)
    if wrong := sorted({*given} & {*left_out, *UNWRITTEN}):
        raise fail("parameters", "not be in the file and left out", wrong)
    own = {
        name: decode(f"parameters: {name}", LISTS.get(name, object | None), value)
        for name, value in given.items()
    }
    if own.get("class_weight") is not None:
        own["class_weight"] = dict(own["class_weight"])
        if len(own["class_weight"]) < len(given["class_weight"]):
            raise fail("parameters: class_weight", "have each label once")
    if "domain" not in left_out:
        if own.get("domain") is not None:
            raise fail("parameters: domain", "be null or absent")
        own.setdefault("domain", found.domain)
    return estimator(**own, **{name: NotInFile() for name in left_out})


def _set_target(model: BaseEstimator, domain: Domain, classes: Any) -> int:
    """Set the labels of a classifier, and return the number of models."""
    if not hasattr(model, "classes"):
        if classes is not None:
            raise fail("classes", "be null for a regressor")
        if domain.target_bounds is None:
            raise fail("domain", "declare the bounds of the target of a regressor")
        return len(model._levels()) if isinstance(model, DPQuantileRegressor) else 1
    if classes is None or classes.ndim != 1 or not 2 <= len({*classes.tolist()}) == len(classes):
        raise fail("classes", "be two or more distinct labels")
    model.classes_ = classes
    declared = domain.target_labels
    if model.classes is None and declared is not None and {*declared} != {*classes.tolist()}:
        raise fail("classes: labels", "be those of the domain's target")
    return 1 if len(classes) == 2 else len(classes)


def _check_shape(name: str, array: FloatArray, shape: tuple[int, ...]) -> None:
    if array.shape != shape or not np.isfinite(array).all():
        raise fail(name, f"be finite numbers of shape {shape}")


def _clipping(domain: Domain, encoded: Encoded) -> ClippingBounds:
    bounds = np.asarray(encoded.bounds)
    _check_shape("encoded: bounds", bounds, (domain.n_numbers + 1, 2))
    if not ((bounds[:, 0] < bounds[:, 1]).all() and (np.abs(bounds) <= 1).all()):
        raise fail("encoded: bounds", "be in [-1, 1], the lower below the upper")
    numbers, (low, high) = bounds[:-1].T.copy(), bounds[-1].tolist()
    return ClippingBounds(domain.number_index, numbers[0], numbers[1], (low, high))


def _proof_of(
    found: ModelFile | InferenceFile, design: Design
) -> tuple[Guarantee, Public, tuple[Listed, ...]]:
    if not found.releases:
        raise fail("releases", "name what was released")
    whole = found.guarantee
    assumptions, void_because = whole.assumptions, whole.void_because
    public = replace(found.public, assumptions=assumptions, void_because=void_because)
    releases = (
        replace(own, design=design) if isinstance(own, NoisyMinimiser) else own
        for own in found.releases
    )
    return whole, public, tuple(releases)


def _set_attributes(model: BaseEstimator, found: Attributes) -> None:
    check_finite("attributes", vars(found).values())
    if found.n_iter_ < 0:
        raise fail("attributes: n_iter_", "be an integer >= 0", found.n_iter_)
    ridge: tuple[int, ...] = (model._design.dim,)
    if not hasattr(model, "classes") and len(model._encoded_coef) > 1:  # several quantiles
        ridge = len(model._encoded_coef), *ridge
    shapes = {"ridge_": ridge, "coef_std_": (model._design.domain.n_encoded,)}
    for name, value in vars(found).items():
        if value is not None:
            if name in shapes:
                _check_shape(f"attributes: {name}", value, shapes[name])
            setattr(model, name, value)
    if found.normalizer_ is not None:
        if len(getattr(model, "classes_", ())) < 3:
            raise fail("attributes: normalizer_", "be absent for fewer than three labels")
        Softmax(len(model.classes_), found.normalizer_)


def _inference(content: object) -> Inference:
    """Return the inference that follows from released sums, after checks of their ranges."""
    hints = hints_of(InferenceFile)
    sums = InferenceFile(**document("the inference", hints, content, ("Inference",)))
    own, domain, count = sums.estimate, sums.domain, len(sums.names)
    m = len(own.start)
    for name in ("numerator", "denominator", "spread", "shared", "excess"):
        _check_shape(f"estimate: {name}", getattr(own, name), (m,))
    for name, matrix in (("sampling", own.sampling), ("privacy", own.privacy)):
        _check_shape(f"estimate: {name}", matrix, (m, m))
        most = float(np.abs(matrix).max(initial=0.0))
        if not np.allclose(matrix, matrix.T, rtol=1e-6, atol=1e-9 * most):
            raise fail(f"estimate: {name}", "be symmetric")
        if float(np.linalg.eigvalsh(matrix)[0]) < -1e-6 * most:
            raise fail(f"estimate: {name}", "be a covariance")
    _check_shape("rows", sums.rows, (count, m))
    _check_shape("constants", sums.constants, (count,))
    if (sums_of := sums.equations) is not None:
        q = len(sums_of.curvatures)
        shapes = {"curvatures": (q, q), "deviation": (q, q), "back": (m, q), "start": (m,)}
        for name, shape in (shapes | {"numerator": (m,), "direct": (m,)}).items():
            _check_shape(f"equations: {name}", getattr(sums_of, name), shape)
    every = {INTERCEPT, *domain.encoded_names()}
    for name, holds, rule in (
        ("estimate: spread", (own.spread >= 0).all(), "be at least 0"),
        ("estimate: excess", (own.excess >= 0).all(), "be at least 0"),
        ("estimate: freedom", own.freedom > 0, "be above 0"),
        ("n_records", (sums.n_records or 1) >= 1, "be an integer >= 1"),
        ("names", len({*sums.names}) == count, "be different"),
        ("names", all({*name.split(" | ")} <= every for name in sums.names), "be coefficients"),
        ("slope", 0 < sums.slope < float("inf"), "be a finite number above 0"),
        ("rows", sums.rows.any(axis=1).all(), "have no constants"),
    ):
        if not holds:
            raise fail(name, rule)
    records = sums.records or domain
    guarantee, public, releases = _proof_of(sums, Design(records, True))
    return replace(
        Inference(sums.names, own, sums.rows, sums.constants, sums.notes, domain),
        equations=sums.equations,
        r_squared=sums.r_squared,
        slope=sums.slope,
        guarantee=guarantee,
        fit=sums.fit,
        public=public,
        releases=releases,
        records=records,
        n_records=sums.n_records,
        model=sums.model,
    )


@np.errstate(over="ignore")
def _check_shown(given: InUnits, own: InUnits, domain: Domain) -> None:
    """Raise an error unless what a reader sees agrees with what the model computes."""
    if given.names != own.names:
        raise fail("coefficients: names", "be those of the domain's encoded columns")
    slopes = np.abs(np.atleast_2d(own.coef)[:, domain.number_index])
    moved = slopes @ np.abs(number_units(domain)[1]) + np.abs(own.intercept)  # terms of intercepts
    if not np.isfinite(moved).all():
        raise fail("encoded", "have coefficients whose sums are finite")
    # Numbers are close relative to themselves, or to the size of what was added: an end of an
    # interval may be near 0, and the other one far.
    sizes = {"coef": 0.0, "intercept": float(moved.max()), "bounds": None, "target_bounds": None}
    for name, size in sizes.items():
        one, other = getattr(given, name), getattr(own, name)
        is_close = one is None and other is None
        if not (one is None or other is None):
            with suppress(ValueError):  # lists of different lengths
                one, other = np.array(one, dtype=np.float64), np.array(other, dtype=np.float64)
                ends = np.abs(other).max(axis=-1, keepdims=True, initial=0.0)
                near = _CLOSE * np.maximum(np.abs(other), ends if size is None else size)
                is_close = one.shape == other.shape and (np.abs(one - other) <= near).all()
        if not is_close:
            raise fail(f"coefficients: {name}", "agree with what the entry `encoded` gives")
