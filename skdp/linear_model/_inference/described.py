"""An inference as a dict of plain numbers, and back: for the files of models."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from skdp._arrays import FloatArray
from skdp._checks import fail
from skdp._codec import decode, encode
from skdp.domain import Domain
from skdp.linear_model._inference.estimate import NoisyEquations, estimate
from skdp.linear_model._inference.table import Inference

_HINTS = {
    "equations": NoisyEquations,
    "sampling": FloatArray,
    "freedom": float,
    "rows": FloatArray,
    "constants": FloatArray,
    "notes": tuple[str, ...],
    "n_records": int | None,
}


def described(found: Inference) -> dict[str, Any] | None:
    """Return the numbers from which an inference is computed; None if one is not finite."""
    own, equations = found.estimate, found.estimate.equations
    arrays = equations.matrix, equations.variance, own.sampling, found.rows, found.constants
    if not all(np.isfinite(value).all() for value in (*arrays, equations.n, equations.excess)):
        return None
    holders = {"equations": own, "sampling": own, "freedom": own}
    values = {name: getattr(holders.get(name, found), name) for name in _HINTS}
    content: dict[str, Any] = encode("inference", values)
    return content


def inference_from(content: Any, domain: Domain, intercept: bool) -> Inference:
    """Return the inference that :func:`described` wrote, of a model with a domain.

    Raises
    ------
    ValueError
        If an entry is missing, unknown, or has another shape or range.
    """
    found = decode("inference", _HINTS, content)
    equations = found["equations"]
    k = domain.n_encoded + int(intercept)
    _check_square("matrix", equations.matrix, k + 1)
    _check_square("variance", equations.variance, k + 1)
    _check_square("sampling", found["sampling"], k)
    if not (equations.variance >= 0).all():
        raise fail("inference: variance", "be at least 0")
    if equations.own_square.shape != (k + 1,):
        raise fail("inference: own_square", f"have {k + 1} entries")
    if not (0 < equations.n < np.inf and 0 <= equations.excess * (k + 2) < 24):
        raise fail("inference: n and excess", f"be above 0 and below 24 / {k + 2}")
    # The solution of the equations is computed again.
    parts = {name: found[name] for name in ("sampling", "freedom")}
    whole = replace(estimate(equations), **parts)
    if not whole.freedom > 0:
        raise fail("inference: freedom", "be above 0")
    least = float(np.linalg.eigvalsh(whole.sampling)[0])
    if whole.is_usable and least < -1e-6 * float(np.abs(whole.sampling).max()):
        raise fail("inference: sampling", "be a covariance")
    return _in_units(whole, found, domain, k)


def _in_units(whole: Any, found: dict[str, Any], domain: Domain, k: int) -> Inference:
    n, rows, constants = found["n_records"], found["rows"], found["constants"]
    if n is not None and n < 1:
        raise fail("inference: n_records", "be a whole number >= 1", n)
    count = len(constants) if constants.ndim == 1 else 0
    if count not in (domain.n_encoded, domain.n_encoded + 1):
        raise fail("inference: constants", "have an entry for each coefficient")
    if rows.shape != (count, k) or not (np.isfinite(rows).all() and np.isfinite(constants).all()):
        raise fail("inference: rows", f"be finite numbers of shape {(count, k)}")
    if count == domain.n_encoded:  # no intercept
        rows, constants = np.vstack([np.zeros(k), rows]), np.append(0.0, constants)
    elif not rows[0].any():
        raise fail("inference: rows", "not have an intercept that is a constant")
    return Inference.of(whole, rows, constants, domain, found["notes"], n_records=n)


def _check_square(name: str, matrix: FloatArray, size: int) -> None:
    """Raise unless a matrix is finite and symmetric."""
    is_square = matrix.shape == (size, size) and np.isfinite(matrix).all()
    error = 1e-9 * float(np.abs(matrix).max(initial=0.0))
    if not (is_square and np.allclose(matrix, matrix.T, rtol=1e-6, atol=error)):
        raise fail(f"inference: {name}", f"be finite, symmetric and of shape {(size, size)}")
