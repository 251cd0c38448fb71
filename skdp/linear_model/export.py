"""Fitted models as dicts and as JSON text. `skdp.linear_model.load` reads them back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skdp._checks import fail
from skdp._codec import VERSION, encode, is_plain, package_version, to_text
from skdp._identity import is_ours
from skdp.linear_model._inference.described import described

# Fitted attributes that are numbers or arrays of numbers; a model has those that it has.
NUMBERS = ("normalizer_", "q_", "threshold_", "ridge_", "coef_std_", "intercept_std_")
# Parameters that are never written: seeds are secret, and a ledger is not part of a model.
UNWRITTEN = ("random_state", "ledger")


class Exported:
    """Methods that return a fitted model as a dict or as JSON text."""

    def to_dict(self) -> dict[str, Any]:
        """Return the fitted model as a dict of strings, numbers, bools, lists and None.

        The dict has what was released or is public, and nothing else: no ``random_state``, draws
        or data. `skdp.linear_model.load_model` returns a model with the same predictions.

        Returns
        -------
        dict
            ``guarantee`` and ``stages``; ``coefficients`` and ``bounds`` in the user's units, to
            be read; ``classes``; ``attributes``; ``domain``; ``encoded``, from which predictions
            are computed; ``parameters``, and in ``left_out`` the names of those that are objects;
            ``inference`` if the model has one.

        Raises
        ------
        NotFittedError
            If the model is not fitted.
        ValueError
            If a level or a label is not a string, a finite number or a bool, or the class is not
            one of this package.
        """
        check_is_fitted(self)
        return _entries(self)

    def to_json(self) -> str:
        """Return the fitted model as JSON text; see :meth:`to_dict`."""
        return to_text(self.to_dict()) + "\n"


def _entries(model: Any) -> dict[str, Any]:
    kind = type(model).__name__
    if not is_ours(model):
        remedy = "A subclass may predict in another way: use pickle."
        raise fail("the class of the model", "be an estimator of skdp", kind, remedy)
    parameters, left_out = _parameters(model)
    names = getattr(model, "feature_names_in_", None)
    found = getattr(model, "inference_", None)
    inferred = None if found is None else described(found)
    return {
        "kind": kind,
        "version": VERSION,
        "skdp": package_version(),
        "guarantee": model.guarantee_.to_dict(),
        "stages": encode("stages", model.stages_),
        "coefficients": in_units(model),
        "bounds": in_bounds(model),
        "classes": encode("the classes", getattr(model, "classes_", None)),
        "feature_names": None if names is None else [str(name) for name in names],
        "attributes": {
            "n_iter_": int(model.n_iter_),
            "converged_": bool(model.converged_),
            **_present(model, NUMBERS),
        },
        "domain": model._design.domain.to_dict(),
        "encoded": _encoded(model),
        "parameters": parameters,
        "left_out": left_out,
        **({} if inferred is None else {"inference": inferred}),
    }


def in_units(model: Any) -> dict[str, Any]:
    """Return names and coefficients in the user's units."""
    return {
        "names": list(model._design.domain.encoded_names()),
        "coef": _listed("coef_", model.coef_),
        "intercept": _listed("intercept_", model.intercept_),
    }


def in_bounds(model: Any) -> dict[str, Any]:
    """Return the clipping bounds in the user's units; empty for models without them."""
    return _present(model, ("bounds_", "target_bounds_"))


def _encoded(model: Any) -> dict[str, Any]:
    """Return the model of the encoded columns, and the bounds to which they are clipped."""
    found: dict[str, Any] = {
        "with_intercept": bool(model._design.intercept),
        "coef": _listed("coef", model._encoded_coef),
        "intercept": _listed("intercept", model._encoded_intercept),
    }
    if (bounds := model._clipping) is not None:
        for name in ("lower", "upper", "target"):
            found[name] = _listed(name, getattr(bounds, name))
    return found


def _parameters(model: Any) -> tuple[dict[str, Any], list[str]]:
    """Return the parameters that JSON can hold, and the names of the others.

    The domain is not repeated if it is that of the fit.
    """
    kept, left_out = {}, []
    for name, value in model.get_params(deep=False).items():
        if name in UNWRITTEN or (name == "domain" and value == model._design.domain):
            if name == "ledger" and value is not None:
                left_out.append(name)
            continue
        plain = _WRITERS.get(name, _plain)(value)
        if plain is None and value is not None:
            left_out.append(name)
        else:
            kept[name] = plain
    return kept, left_out


def _plain(value: Any) -> Any:
    """Return a value that JSON can hold, or None."""
    value = value.item() if isinstance(value, np.generic) else value
    return value if is_plain(value) else None


def _labels_given(value: Any) -> list[Any] | None:
    labels = None if value is None else [_plain(label) for label in value]
    return None if labels is None or None in labels else labels


def _weights_given(value: Any) -> list[list[Any]] | None:
    """Return pairs of labels and weights: the keys of JSON are strings."""
    if not isinstance(value, dict):
        return None
    pairs = [[_plain(label), _plain(weight)] for label, weight in value.items()]
    return None if any(None in pair for pair in pairs) else pairs


# Parameters that are not single values.
_WRITERS: dict[str, Callable[[Any], Any]] = {
    "classes": _labels_given,
    "class_weight": _weights_given,
}


def _present(model: Any, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: _listed(name, getattr(model, name)) for name in names if hasattr(model, name)}


def _listed(name: str, value: Any) -> Any:
    """Return a number or nested lists of numbers."""
    array = np.asarray(value, dtype=np.float64)
    if not np.isfinite(array).all():
        raise fail(name, "hold finite numbers, to be exported")
    return array.tolist()
