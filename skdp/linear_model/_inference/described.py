"""An inference as a dict of plain numbers, and back: for the files of models."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from skdp._arrays import FloatArray
from skdp._checks import check_count, check_interval, fail
from skdp._json import as_floats, check_keys, check_list
from skdp.domain import Domain
from skdp.linear_model._inference.estimate import NoisyEquations, estimate
from skdp.linear_model._inference.inference import Inference

_KEYS = (
    "matrix",
    "variance",
    "own_square",
    "n",
    "excess",
    "sampling",
    "freedom",
    "rows",
    "constants",
    "notes",
    "n_records",
)


def described(found: Inference) -> dict[str, Any] | None:
    """Return the numbers from which an inference is computed; None if one is not finite."""
    own, equations = found.estimate, found.estimate.equations
    content = {
        "matrix": equations.matrix,
        "variance": equations.variance,
        "own_square": equations.own_square,
        "n": equations.n,
        "excess": equations.excess,
        "sampling": own.sampling,
        "freedom": None if math.isinf(own.freedom) else own.freedom,
        "rows": found.rows,
        "constants": found.constants,
    }
    numbers = {name: np.asarray(value) for name, value in content.items() if value is not None}
    if not all(np.isfinite(value).all() for value in numbers.values()):
        return None
    plain = {name: value.tolist() for name, value in numbers.items()}
    return {"freedom": None} | plain | {"notes": list(found.notes), "n_records": found.n_records}


def inference_from(content: Any, domain: Domain, intercept: bool) -> Inference:
    """Return the inference that :func:`described` wrote, of a model with a domain.

    Raises
    ------
    ValueError
        If an entry is missing, unknown, or has another shape or range.
    """
    found = check_keys("inference", content, _KEYS)
    k = domain.n_encoded + int(intercept)
    square = _square("matrix", found, k + 1), _square("variance", found, k + 1)
    if not (square[1] >= 0).all():
        raise fail("inference: variance", "be at least 0")
    if len(check_list("inference: own_square", found["own_square"], bool)) != k + 1:
        raise fail("inference: own_square", f"have {k + 1} entries")
    sizes = {name: _size(name, found[name]) for name in ("n", "excess")}
    if not (sizes["n"] > 0 and sizes["excess"] * (k + 2) < 24):
        raise fail("inference: n and excess", f"be above 0 and below 24 / {k + 2}")
    own = np.array(found["own_square"], dtype=np.bool_)
    # The solution of the equations is computed again.
    whole = replace(
        estimate(NoisyEquations(*square, own, sizes["n"], sizes["excess"])),
        sampling=_square("sampling", found, k),
        freedom=math.inf if found["freedom"] is None else _size("freedom", found["freedom"]),
    )
    if not whole.freedom > 0:
        raise fail("inference: freedom", "be above 0")
    least = float(np.linalg.eigvalsh(whole.sampling)[0])
    if whole.is_usable and least < -1e-6 * float(np.abs(whole.sampling).max()):
        raise fail("inference: sampling", "be a covariance")
    return _in_units(whole, found, domain, k)


def _in_units(whole: Any, found: dict[str, Any], domain: Domain, k: int) -> Inference:
    n = None if found["n_records"] is None else check_count("n_records", found["n_records"])
    given = found["constants"]
    count = len(given) if isinstance(given, list) else 0
    if count not in (domain.n_encoded, domain.n_encoded + 1):
        raise fail("inference: constants", "have an entry for each coefficient")
    rows = as_floats("inference: rows", found["rows"], (count, k))
    constants = as_floats("inference: constants", given, (count,))
    notes = check_list("inference: notes", found["notes"], str)
    if count == domain.n_encoded:  # no intercept
        rows, constants = np.vstack([np.zeros(k), rows]), np.append(0.0, constants)
    elif not rows[0].any():
        raise fail("inference: rows", "not have an intercept that is a constant")
    return Inference.of(whole, rows, constants, domain, notes, n_records=n)


def _square(name: str, found: dict[str, Any], size: int) -> FloatArray:
    """Return a symmetric matrix."""
    matrix = as_floats(f"inference: {name}", found[name], (size, size))
    if not np.allclose(matrix, matrix.T, rtol=1e-6, atol=1e-9 * float(np.abs(matrix).max())):
        raise fail(f"inference: {name}", "be symmetric")
    return matrix


def _size(name: str, value: Any) -> float:
    return check_interval(f"inference: {name}", value, 0.0, math.inf, "left")
