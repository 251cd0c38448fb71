"""Models from files, dicts and JSON text that `skdp.linear_model.export` wrote.

All entries are checked. Nothing that a file names is imported or run: it can only name one of the
five estimators.
"""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp._checks import fail
from skdp._codec import as_floats, check_keys, decode, document, from_text
from skdp.domain import Domain
from skdp.domain.layout import number_units
from skdp.linear_model._inference.described import inference_from
from skdp.linear_model._objective.clipping import ClippingBounds
from skdp.linear_model._shared.design import Design
from skdp.linear_model._shared.task import Stage
from skdp.linear_model.coordinate_descent import (
    DPCoordinateDescentClassifier,
    DPCoordinateDescentRegressor,
)
from skdp.linear_model.export import NUMBERS, UNWRITTEN, in_bounds, in_units
from skdp.linear_model.huber import DPHuberRegressor
from skdp.linear_model.linear import DPLinearRegression
from skdp.linear_model.logistic import DPLogisticRegression
from skdp.linear_model.losses import Softmax
from skdp.privacy import Guarantee

ESTIMATORS = {
    estimator.__name__: estimator
    for estimator in (
        DPCoordinateDescentClassifier,
        DPCoordinateDescentRegressor,
        DPHuberRegressor,
        DPLinearRegression,
        DPLogisticRegression,
    )
}
# The entries of a file. Lists of numbers, whose shapes depend on other entries, are compared with
# those afterwards.
_HINTS = {
    "skdp": str,
    "guarantee": Guarantee,
    "stages": tuple[Stage, ...],
    "coefficients": {"names": list[str], "coef": Any, "intercept": Any},
    "bounds": dict[str, Any],
    "classes": NDArray[Any] | None,
    "feature_names": list[str] | None,
    "attributes": dict[str, Any],
    "domain": Domain,
    "encoded": dict[str, Any],
    "parameters": dict[str, Any],
    "left_out": list[str],
}
# Parameters that are not single values.
_PARAMETERS = {
    "classes": list[object] | None,
    "class_weight": list[tuple[object, object]] | None,
}
_CLIPPING = ("lower", "upper", "target")
# Greatest size of a file, in bytes, and of a text.
_MOST = 2**28
# Coefficients in the user's units are computed again. Another machine may round differently.
_CLOSE = 1e-9


class NotInFile:
    """Stands for a parameter that a file does not hold.

    ``fit`` raises an error before anything is spent, until the parameter is set.
    """

    def __repr__(self) -> str:
        return "<not in the file>"


def load_model(source: Mapping[str, Any] | str | Path) -> Any:
    """Return the fitted model of a file with the JSON text of ``to_json``, or of a dict.

    Reading a file never runs code that the file names, unlike pickle: a broken or malicious file
    gives an error. Nothing proves who wrote a file, and that its guarantee is true.

    Parameters
    ----------
    source : str, Path or dict
        The path of a regular file of at most 256 MiB, or a result of ``to_dict``. `from_json`
        reads a text.

    Returns
    -------
    estimator
        A fitted model of the same class, whose predictions are those of the original model, bit
        for bit. It has the attributes that the file holds, and ``inference_`` if the model had it.
        Absent are the matrix ``coef_corr_`` and the objects ``noise_``, ``loss_``, ``history_``
        and ``moments_``. ``guarantee_`` has no privacy losses (`skdp.Guarantee.to_dict`).

        Its parameters are those of the original model, but ``random_state`` is None. A ledger,
        and parameters that were objects, must be set before ``fit`` is called again.

    Raises
    ------
    ValueError
        If the file is not a regular file or is too large, or if an entry is unknown, missing, of
        another type or shape, not finite, or contradicts another entry.
    OSError
        If the file cannot be read.

    See Also
    --------
    from_json : The model of a text.

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
    >>> bool((again.predict(X) == model.predict(X)).all())
    True
    >>> again.guarantee_.void_because
    ('the noise came from random_state and not from the operating system',)
    """
    if isinstance(source, Mapping):
        return _model(dict(source))
    return _model(from_text("the file", _read(source)))


def from_json(text: str) -> Any:
    """Return the fitted model of the JSON text that ``to_json`` of an estimator wrote.

    Parameters
    ----------
    text : str
        At most 2^28 characters.

    Returns
    -------
    estimator
        As `load_model` of a file with this text.

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
    >>> bool((from_json(model.to_json()).coef_ == model.coef_).all())
    True
    """
    if isinstance(text, str) and len(text) > _MOST:
        raise fail("text", f"have at most {_MOST} characters", len(text))
    return _model(from_text("text", text))


def _model(content: Any) -> Any:
    hints = _HINTS | ({"inference": Any} if "inference" in content else {})
    found = document("the model", hints, content, ESTIMATORS)
    domain, guarantee = found["domain"], found["guarantee"]
    model = _with_parameters(ESTIMATORS[content["kind"]], found)
    _set_features(model, domain, found["feature_names"])
    n_models = _set_target(model, domain, found["classes"])
    _set_encoded(model, domain, n_models, found["encoded"])
    model._set_coefficients()
    model.guarantee_, model.stages_ = guarantee, found["stages"]
    _check_stages(model.stages_, guarantee)
    _set_attributes(model, found["attributes"], found.get("inference"))
    _check_shown(model, found)
    return model


def _read(source: Any) -> str:
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


def _with_parameters(estimator: Any, found: dict[str, Any]) -> Any:
    """Return an estimator with the parameters of a file, and its domain unless it had another."""
    names, left_out = estimator().get_params(deep=False), found["left_out"]
    given = dict(check_keys("parameters", found["parameters"], (), names))
    check_keys("left_out", dict.fromkeys(left_out), (), names)
    if wrong := sorted({*given} & {*left_out, *UNWRITTEN}):
        raise fail("parameters", "not be in the file and left out", wrong)
    own = {
        name: decode(f"parameters: {name}", _PARAMETERS.get(name, object | None), value)
        for name, value in given.items()
    }
    if own.get("class_weight") is not None:
        own["class_weight"] = dict(own["class_weight"])
        if len(own["class_weight"]) < len(given["class_weight"]):
            raise fail("parameters: class_weight", "have each label once")
    if "domain" not in left_out:
        if own.get("domain") is not None:
            raise fail("parameters: domain", "be null or absent")
        own.setdefault("domain", found["domain"])
    return estimator(**own, **{name: NotInFile() for name in left_out})


def _set_features(model: Any, domain: Domain, names: Any) -> None:
    model.n_features_in_ = domain.n_columns
    if names is not None:
        if len(names) != domain.n_columns:
            raise fail("feature_names", f"have {domain.n_columns} entries", len(names))
        if domain.names is not None and names != list(domain.names):
            raise fail("feature_names", "be the names of the domain's columns")
        model.feature_names_in_ = np.array(names, dtype=object)


def _set_target(model: Any, domain: Domain, classes: Any) -> int:
    """Set the labels of a classifier, and return the number of models."""
    if not hasattr(model, "classes"):
        if classes is not None:
            raise fail("classes", "be null for a regressor")
        if domain.target_bounds is None:
            raise fail("domain", "declare the bounds of the target of a regressor")
        return 1
    if classes is None or classes.ndim != 1 or not 2 <= len({*classes.tolist()}) == len(classes):
        raise fail("classes", "be two or more distinct labels")
    model.classes_ = classes
    declared = domain.target_labels
    if model.classes is None and declared is not None and {*declared} != {*classes.tolist()}:
        raise fail("classes: labels", "be those of the domain's target")
    return 1 if len(model.classes_) == 2 else len(model.classes_)


def _set_encoded(model: Any, domain: Domain, n_models: int, encoded: Any) -> None:
    """Set what predictions are computed from."""
    needed = ("with_intercept", "coef", "intercept")
    clips = isinstance(encoded, dict) and "lower" in encoded
    check_keys("encoded", encoded, (*needed, *_CLIPPING) if clips else needed)
    if not isinstance(encoded["with_intercept"], bool):
        raise fail("encoded: with_intercept", "be true or false")
    model._design = Design(domain, encoded["with_intercept"])
    shape = n_models, domain.n_encoded
    model._encoded_coef = as_floats("encoded: coef", encoded["coef"], shape)
    model._encoded_intercept = as_floats("encoded: intercept", encoded["intercept"], shape[:1])
    model._clipping = _clipping(domain, encoded) if clips else None
    if clips:
        model.domain_ = domain
        model.bounds_ = model._clipping.in_units(domain)
        if not hasattr(model, "classes"):
            model.target_bounds_ = model._clipping.target_in_units(domain)


def _clipping(domain: Domain, encoded: dict[str, Any]) -> ClippingBounds:
    shapes = (domain.n_numbers,), (domain.n_numbers,), (2,)
    lower, upper, target = (
        as_floats(f"encoded: {name}", encoded[name], shape)
        for name, shape in zip(_CLIPPING, shapes, strict=True)
    )
    pairs = np.column_stack([np.append(lower, target[0]), np.append(upper, target[1])])
    if not ((pairs[:, 0] < pairs[:, 1]).all() and (np.abs(pairs) <= 1).all()):
        raise fail("encoded: lower", "be below encoded: upper, both in [-1, 1]")
    return ClippingBounds(domain.number_index, lower, upper, (float(target[0]), float(target[1])))


def _check_stages(stages: tuple[Stage, ...], guarantee: Guarantee) -> None:
    for stage in stages:
        for name in ("deviation", "epsilon", "delta"):
            if not 0 <= (getattr(stage, name) or 0.0) < math.inf:
                raise fail(f"a stage: {name}", "be a number in [0, inf)", getattr(stage, name))
        if stage.releases < 1:
            raise fail("a stage: releases", "be a whole number >= 1", stage.releases)
    spent = math.fsum(stage.epsilon or 0.0 for stage in stages)
    if not stages or spent > guarantee.epsilon * (1 + _CLOSE):
        raise fail("stages", "spend no more than the guarantee's epsilon")


def _set_attributes(model: Any, found: Any, inference: Any) -> None:
    """Set the attributes that are numbers or arrays of numbers, and the inference."""
    check_keys("attributes", found, ("n_iter_", "converged_"), NUMBERS)
    model.n_iter_ = decode("attributes: n_iter_", int, found["n_iter_"])
    model.converged_ = decode("attributes: converged_", bool, found["converged_"])
    if model.n_iter_ < 0:
        raise fail("attributes: n_iter_", "be a whole number >= 0", model.n_iter_)
    shapes = {"ridge_": (model._design.dim,), "coef_std_": (model._design.domain.n_encoded,)}
    for name in NUMBERS:
        if name in found:
            array = as_floats(f"attributes: {name}", found[name], shapes.get(name, ()))
            setattr(model, name, array if array.ndim else float(array))
    if hasattr(model, "normalizer_"):
        if len(getattr(model, "classes_", ())) < 3:
            raise fail("attributes: normalizer_", "be absent for fewer than three labels")
        Softmax(len(model.classes_), model.normalizer_)
    if inference is not None:
        if len(model._encoded_coef) > 1:
            raise fail("inference", "be absent for more than two labels")
        model._inference = inference_from(inference, model._design.domain, model._design.intercept)


def _check_shown(model: Any, found: dict[str, Any]) -> None:
    """Raise an error unless what a reader sees agrees with what the model computes."""
    own = in_units(model)
    given = found["coefficients"]
    if given["names"] != own["names"]:
        raise fail("coefficients: names", "be those of the domain's encoded columns")
    centre = number_units(model._design.domain)[1]
    slopes = np.abs(np.atleast_2d(own["coef"])[:, model._design.domain.number_index])
    moved = slopes @ np.abs(centre) + np.abs(own["intercept"])  # terms of the intercept
    _check_close("coefficients: coef", given["coef"], own["coef"], 0.0)
    _check_close(
        "coefficients: intercept", given["intercept"], own["intercept"], float(moved.max())
    )
    bounds = in_bounds(model)
    given = check_keys("bounds", found["bounds"], bounds)
    for name, value in bounds.items():
        sizes = np.abs(value).max(axis=-1, keepdims=True, initial=0.0)
        _check_close(f"bounds: {name}", given[name], value, sizes)


def _check_close(name: str, given: Any, own: Any, size: Any) -> None:
    """Raise an error unless numbers are close, relative to themselves or to a greater size."""
    own = np.asarray(own, dtype=np.float64)
    distance = np.abs(as_floats(name, given, own.shape) - own)
    if not (distance <= _CLOSE * np.maximum(np.abs(own), size)).all():
        raise fail(name, "agree with what the entry `encoded` gives")
