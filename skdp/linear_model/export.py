"""Fitted models and inferences as dicts and JSON text. `skdp.linear_model.load` reads them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from skdp._codec import VERSION, encode, package_version, to_text
from skdp.domain import Domain
from skdp.linear_model._inference.estimate import NoisyEquations, NoisyEstimate
from skdp.linear_model._objective.theorem import NoisyMinimiser
from skdp.linear_model.formulas import to_onnx, to_sql
from skdp.linear_model.proof import Claim, written
from skdp.privacy import Guarantee
from skdp.trusted.arrays import Array, FloatArray
from skdp.trusted.certify import NoisySum, PrivateChoice
from skdp.trusted.checks import fail, is_ours
from skdp.trusted.statement import Public

# Parameters that are never written: seeds are secret, and a ledger is not part of a model.
UNWRITTEN = ("random_state", "ledger")
# The types of parameters that are no single values. Keys of JSON are strings, so the weights of
# labels are pairs.
LISTS: dict[str, Any] = {
    "classes": list[object] | None,
    "class_weight": list[tuple[object, object]] | None,
    "quantile": float | list[float],
}


InFile = tuple[NoisySum | NoisyMinimiser | PrivateChoice | Claim, ...]


@dataclass(frozen=True, eq=False)
class InUnits:
    """Names, coefficients and clipping bounds in the user's units, to be read."""

    names: list[str]
    coef: list[float] | list[list[float]]
    intercept: float | list[float]
    bounds: list[list[float]] | None
    target_bounds: list[float] | None

    @classmethod
    def of(cls, model: BaseEstimator) -> InUnits:
        """Return what a model shows."""
        names = "coef_", "intercept_", "bounds_", "target_bounds_"
        values = [getattr(model, name, None) for name in names]
        check_finite("coefficients", values)
        shown: Any = [None if own is None else np.asarray(own, float).tolist() for own in values]
        return cls(list(model._design.domain.encoded_names()), *shown)


@dataclass(frozen=True, eq=False)
class Encoded:
    """The model of the encoded columns, from which predictions are computed.

    ``bounds``, (n_numbers + 1, 2), are those to which encoded numbers and the target are clipped.
    """

    with_intercept: bool
    coef: FloatArray
    intercept: FloatArray
    bounds: FloatArray | None


@dataclass(frozen=True, eq=False)
class Attributes:
    """Fitted attributes that are numbers or arrays of numbers; None for those that are absent."""

    n_iter_: int
    converged_: bool
    normalizer_: float | None
    q_: float | None
    threshold_: float | None
    ridge_: FloatArray | None
    coef_std_: FloatArray | None
    intercept_std_: float | None


@dataclass(frozen=True, eq=False)
class ModelFile:
    """The entries of a model's file, beside its kind and version."""

    skdp: str
    guarantee: Guarantee
    public: Public
    releases: InFile
    coefficients: InUnits
    classes: Array | None
    feature_names: list[str] | None
    attributes: Attributes
    domain: Domain
    records: Domain | None
    encoded: Encoded
    parameters: dict[str, Any]
    left_out: list[str]

    @classmethod
    def of(cls, model: BaseEstimator) -> ModelFile:
        names, clipping = getattr(model, "feature_names_in_", None), model._clipping
        bounds = None
        if clipping is not None:
            bounds = np.column_stack([clipping.lower, clipping.upper])
            bounds = np.vstack([bounds, clipping.target])
        facts: Any = [getattr(model, field.name, None) for field in fields(Attributes)]
        check_finite("attributes", facts)
        coef, intercept = model._encoded_coef, model._encoded_intercept
        records, domain = model._records.domain, model._design.domain
        return cls(
            package_version(),
            model.guarantee_,
            model.public_,
            written(model.releases_, model.public_),  # type: ignore[arg-type]
            InUnits.of(model),
            getattr(model, "classes_", None),
            None if names is None else [str(name) for name in names],
            Attributes(*facts),
            domain,
            None if records == domain else records,
            Encoded(bool(model._design.intercept), coef, intercept, bounds),
            *_parameters(model),
        )


@dataclass(frozen=True, eq=False)
class InferenceFile:
    """The entries of an inference's file, which proves its guarantee and has the released sums."""

    skdp: str
    guarantee: Guarantee
    fit: Guarantee | None
    public: Public
    releases: InFile
    model: str
    domain: Domain
    records: Domain | None  # of the releases, if it is another one
    estimate: NoisyEstimate
    equations: NoisyEquations | None
    r_squared: float | None
    slope: float
    rows: FloatArray
    constants: FloatArray
    names: tuple[str, ...]
    notes: tuple[str, ...]
    n_records: int | None

    @classmethod
    def of(cls, found: Any) -> InferenceFile:
        own = found.estimate
        values = [found.rows, found.constants, own.start, own.numerator, own.denominator]
        values += [own.sampling, own.privacy, own.spread, own.shared, own.excess]
        values += [] if found.equations is None else vars(found.equations).values()
        check_finite("the inference", values)
        facts: Any = {field.name: getattr(found, field.name, None) for field in fields(cls)}
        facts["skdp"], facts["releases"] = package_version(), written(found.releases, found.public)
        if found.records == found.domain:
            facts["records"] = None
        return cls(**facts)


def entries_of(file: ModelFile | InferenceFile, kind: str) -> dict[str, Any]:
    own = {name: encode(name, value) for name, value in vars(file).items()}
    return {"kind": kind, "version": VERSION, **own}


class Exportable:
    """Methods that return a fitted model as a dict or as JSON text."""

    def to_dict(self) -> dict[str, Any]:
        """Return the fitted model as a dict of strings, numbers, bools, lists and None.

        The dict has what was released or is public, and nothing else: no ``random_state``, draws
        or data. `skdp.linear_model.load_model` returns a model with the same predictions.

        Returns
        -------
        dict
            ``guarantee``; ``public`` and ``releases``, which prove it; ``coefficients`` in the
            user's units, and clipping bounds, to be read; ``classes``; ``attributes``; ``domain``,
            and in ``records`` that of the releases if it is another one; ``encoded``, from which
            predictions are computed; ``parameters``, and in ``left_out`` the names of those that
            are objects.

        Raises
        ------
        NotFittedError
            If the model is not fitted.
        ValueError
            If a level or a label is not a string, a finite number or a bool, or the class is not
            one of this package.
        """
        return entries_of(ModelFile.of(self._exported()), type(self).__name__)

    def to_json(self) -> str:
        """Return the fitted model as JSON text; see :meth:`to_dict`."""
        return to_text(self.to_dict()) + "\n"

    def to_sql(self, output: str = "predict") -> str | list[str]:
        """Return SQL expressions of the predictions, for DuckDB, PostgreSQL and SQLite.

        Numbers are clipped to ``bounds_``. NULL and NaN follow the domain's rules for missing
        cells; without a rule for a number the prediction is NULL. Infinite numbers are not allowed.

        Parameters
        ----------
        output : {"predict", "predict_proba"}, default="predict"
            The second one only for classifiers.

        Returns
        -------
        str or list of str
            Expressions over the quoted names of the columns, or ``"x0"``, ``"x1"``, ... without
            names. A list has one for each label of ``classes_``, or for each of several quantiles.

        Raises
        ------
        ValueError
            If the levels of a column, or the labels, are neither strings nor numbers nor bools, or
            if the domain has encoded columns or bounds the length of rows.

        Examples
        --------
        >>> from skdp import Domain, DPHuberRegressor
        >>> domain = Domain({"age": (20, 80)}, target=(0, 10))
        >>> X, y = domain.sample(1000, random_state=0, with_target=True)  # artificial rows
        >>> model = DPHuberRegressor(domain=domain, random_state=0).fit(X, y)
        >>> sql = f"SELECT {model.to_sql()} AS prediction FROM persons"
        """
        return to_sql(self._exported(), output)

    def to_onnx(self) -> Any:
        """Return an ONNX graph of the predictions; the extra ``skdp[onnx]`` is required.

        Returns
        -------
        onnx.ModelProto
            Its inputs are the columns of :meth:`to_sql`, each of shape (n, 1): strings if the
            levels are strings, and otherwise float64. A missing cell is an empty string or NaN. Its
            outputs have the names and shapes of ``predict`` and ``predict_proba``.

        Raises
        ------
        ImportError, ValueError
            If ``onnx`` is not installed, or as for :meth:`to_sql`.
        """
        return to_onnx(self._exported())

    def _exported(self) -> Any:
        check_is_fitted(self)
        if not is_ours(self):
            remedy = "A subclass may predict in another way: use pickle."
            kind = type(self).__name__
            raise fail("the class of the model", "be an estimator of skdp", kind, remedy)
        return self


def _parameters(model: BaseEstimator) -> tuple[dict[str, Any], list[str]]:
    """Return the parameters that JSON can hold, and the names of the others.

    The domain is not repeated if it is that of the fit.
    """
    kept: dict[str, Any] = {}
    left_out = []
    for name, value in model.get_params(deep=False).items():
        if name in UNWRITTEN or (name == "domain" and value == model._design.domain):
            left_out += [name] if name == "ledger" and value is not None else []
            continue
        if name in LISTS and (isinstance(value, dict) or np.ndim(value)):
            value = [*(value.items() if isinstance(value, dict) else value)]
        try:
            plain = encode(name, value)
        except ValueError:
            plain = {}
        if isinstance(plain, dict) or (isinstance(plain, list) and name not in LISTS):
            left_out.append(name)
        else:
            kept[name] = plain
    return kept, left_out


def check_finite(name: str, values: Iterable[ArrayLike | None]) -> None:
    if not all(np.isfinite(value).all() for value in values if value is not None):
        raise fail(name, "contain only finite numbers, as the file of a model")
