"""The encoding of a domain as a scikit-learn transformer, and the decoding of coefficients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable
from weakref import ref

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from skdp._arrays import FloatArray
from skdp._checks import fail
from skdp._sklearn import Documented
from skdp.domain.columns import Levels
from skdp.domain.tables import as_table

# The arrays that encoders returned, while they exist, with their domains; by the ids of the arrays.
_RETURNED: dict[int, tuple[Any, Any]] = {}


@runtime_checkable
class Encoding(Protocol):
    """Members of a domain that the encoder uses; `Domain` has them."""

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the columns, or None."""

    @property
    def n_columns(self) -> int:
        """Number of columns."""

    def encoded_names(self) -> tuple[str, ...]:
        """Return the names of the encoded columns."""

    def encode(self, X: Any) -> FloatArray:
        """Map rows into the domain and encode them."""


class DomainEncoder(Documented, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Transformer that clips, scales and one-hot encodes by a public domain.

    Nothing is learned from data. Therefore the encoder costs no privacy, needs no ``fit``, and
    encodes a row independently of all others, as described in `Domain`. It can be used in
    pipelines and column transformers; the estimator after it takes ``domain.encoded`` as its
    domain.

    Parameters
    ----------
    domain : Domain
        Public bounds and levels of the columns.

    Attributes
    ----------
    n_features_in_ : int
        Number of declared columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the declared columns; only if the domain has names.

    Examples
    --------
    >>> from skdp.domain import Domain
    >>> encoder = Domain.box([0, 10], [1, 20], names=["dose", "weight"]).encoder()
    >>> encoder.transform([[0.5, 12.5], [3, 20]])
    array([[ 0. , -0.5],
           [ 1. ,  1. ]])
    >>> encoder.get_feature_names_out()
    array(['dose', 'weight'], dtype=object)
    """

    def __init__(self, domain: Encoding) -> None:
        self.domain = domain

    def fit(self, X: Any, y: Any = None) -> DomainEncoder:
        """Check the columns of ``X``; no value is read, and nothing is stored."""
        domain = self._checked_domain()
        as_table(X, domain.names, domain.n_columns)
        return self

    def transform(self, X: Any) -> FloatArray:
        """Encode rows.

        Parameters
        ----------
        X : DataFrame, Arrow table, dict of columns or array-like, (n, n_features_in_)

        Returns
        -------
        ndarray or DataFrame of shape (n, domain.n_encoded)
            A DataFrame if ``set_output`` asks for one.
        """
        domain = self._checked_domain()
        encoded = domain.encode(X)
        key = id(encoded)
        _RETURNED[key] = ref(encoded, lambda _: _RETURNED.pop(key, None)), domain
        return encoded

    def get_feature_names_out(self, input_features: Sequence[str] | None = None) -> NDArray[Any]:
        """Return the names of the encoded columns.

        Parameters
        ----------
        input_features : sequence of str, default=None
            Names of the columns; if the domain has names, they must be the same.

        Returns
        -------
        ndarray of str objects
        """
        domain = self._checked_domain()
        given, declared = input_features, domain.names
        if given is not None and declared is not None and tuple(given) != declared:
            raise fail("input_features", f"be the domain's names {list(declared)}", list(given))
        if given is not None and len(given) != domain.n_columns:
            raise fail("input_features", f"have {domain.n_columns} names", len(given))
        return np.array(domain.encoded_names(), dtype=object)

    @property
    def n_features_in_(self) -> int:
        """Number of declared columns."""
        return self._checked_domain().n_columns

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """Names of the columns, if the domain has names."""
        names = self._checked_domain().names
        if names is None:
            raise AttributeError("A domain without column names has no feature_names_in_.")
        return np.array(names, dtype=object)

    def _checked_domain(self) -> Encoding:
        if not isinstance(self.domain, Encoding):
            raise fail("domain", "be a Domain", self.domain, "Build it from public knowledge.")
        return self.domain

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        declare_input(tags.input_tags, self.domain)
        return tags


def declare_input(tags: Any, domain: Any) -> None:
    """Set what scikit-learn's tags say about tables of a domain; without one they hold numbers."""
    columns = getattr(domain, "_columns", ())
    levels = [column for column in columns if isinstance(column, Levels)]
    tags.categorical = bool(levels)
    tags.string = any(isinstance(level, str) for column in levels for level in column.levels)
    # A missing level without a rule is read as another one.
    ruled = [column in levels or getattr(column, "missing", None) is not None for column in columns]
    tags.allow_nan = bool(ruled) and all(ruled)


def decode_coef(
    self: Any, coef: ArrayLike, intercept: ArrayLike | None = None, *, regression: bool = False
) -> tuple[FloatArray, FloatArray]:
    """Return a linear model of the encoded columns in the units of the columns.

    For rows within the bounds, ``encode(X) @ coef + intercept`` equals the product of the raw
    numbers and the indicators with the decoded coefficients, plus the decoded intercept.
    Missing numbers are those of their rule: with "indicator" the middle of the bounds.

    Parameters
    ----------
    coef : array-like of shape (..., n_encoded)
    intercept : array-like of shape (...), default=None
        None stands for 0. The decoded model still has an intercept, because an encoded 0 is
        the middle of the bounds.
    regression : bool, default=False
        Whether the model predicts a target scaled by `encode_target`, and the decoded model
        predicts it in its own units.

    Returns
    -------
    coef : ndarray of shape (..., n_encoded)
    intercept : ndarray of shape (...)
    """
    slopes = np.asarray(coef, dtype=np.float64)
    if not slopes.ndim or slopes.shape[-1] != self.n_encoded:
        raise fail("coef", f"have {self.n_encoded} columns", slopes.shape)
    half, centre = (1.0, 0.0) if self.is_ball else self._layout.units()
    constant = np.asarray(0.0 if intercept is None else intercept, dtype=np.float64)
    constant, slopes = constant - (slopes * (centre / half)).sum(axis=-1), slopes / half
    if regression:
        target = self._target_number()
        slopes = slopes * target.half_range
        constant = constant * target.half_range + target.centre
    return slopes, np.asarray(constant)


def refuse_encoded(X: Any, table: Any, domain: Any) -> None:
    """Raise if ``X`` is an encoded table of a domain, where ``domain`` declares it not encoded.

    All numbers would be clipped to bounds in other units. Recognised are arrays that an encoder
    of the same columns returned, tables with the names of the encoded columns, and arrays with as
    many columns. Names, numbers of columns and declarations decide.

    Parameters
    ----------
    X : object
        What the user gave.
    table : DataFrame or ndarray with two dimensions
        The same cells.
    domain : Domain
    """
    if domain.encoded._columns == domain._columns:
        return
    array, own = _RETURNED.get(id(X), (lambda: None, None))
    is_encoded = array() is X and getattr(own, "_columns", None) == domain._columns
    if hasattr(table, "columns"):
        names = domain.encoded_names()
        is_encoded |= names != domain.names and tuple(table.columns) == names
    else:
        is_encoded |= domain.n_columns != table.shape[1] == domain.n_encoded
    if is_encoded:
        rule = f"have the domain's {domain.n_columns} columns and not the encoded ones"
        remedy = "Behind domain.encoder() give the model domain=domain.encoded."
        raise fail("X", rule, None, remedy)
