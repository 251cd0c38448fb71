"""Plans of moment releases, and the released moments."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from skdp._arrays import FloatArray
from skdp._checks import fail
from skdp.domain import Domain
from skdp.domain.columns import listed
from skdp.geometry.moments import MomentLayout
from skdp.linear_model._moments.postprocess import SHRINK, NoisyMoments
from skdp.linear_model._shared.gram import exact_gram, exact_statistic, release_exact
from skdp.linear_model._shared.task import ReleasePlan
from skdp.linear_model._standardize.scaler import RowScaler, Scaler
from skdp.mechanisms.noise import first_covariance, variances
from skdp.rows import Rows


@dataclass(frozen=True, eq=False)
class MomentPlan(ReleasePlan):
    """A release of moments in one stage; public information only.

    The ``layout`` has no features if only the target's mean is released. The number ``n`` of
    records is None if it is private.
    """

    layout: MomentLayout
    noise: Any
    n: int | None

    @property
    def delta(self) -> float:
        """The delta that the release spends."""
        return float(self.noise.guarantee.delta)

    @property
    def mechanism(self) -> str:
        """The sentence of a guarantee."""
        what = "moments" if self.layout.dim > 1 else "moment"
        return f"{self.layout.dim} {what} with {type(self.noise).__name__}"

    @property
    def named(self) -> list[tuple[str, Any]]:
        """The noise with the name of its release."""
        return [("moments", self.noise)]

    def sums(self, rows: Rows) -> NDArray[Any]:
        """Return the exact sums of the first reading of the records, in units of 2^-40."""
        # A layout of two columns has only the target's mean.
        return exact_statistic(self.layout, exact_gram(rows, features=self.layout.n_rows > 2))

    def release(self, exact: NDArray[Any], rows: Rows, rng: Generator) -> Moments:
        """Release the moments."""
        names = names_of(rows.domain) if self.layout.n_rows > 2 else ("1", "target")
        return Moments.of(self, release_exact(self.noise, exact, rng), names)


def names_of(domain: Domain) -> tuple[str, ...]:
    """Return the names of the columns of (1, x, y)."""
    return ("1", *domain.encoded_names(), "target")


@dataclass(frozen=True, eq=False, repr=False)
class Moments:
    """Released sums of products of the columns of (1, x, y), with their noise.

    All entries were released. Computations from them cost no further privacy. The columns are
    those of z = (column - centre) / scale. Without a scaling stage the centre is 0 and the scale
    is 1: numbers and the target are in [-1, 1], as the domain encodes them, and indicators are 0
    or 1. Rows in a ball are divided by the least power of two that is not below the radius. After
    a scaling stage rows far from the centre have a weight below 1.

    Attributes
    ----------
    names : tuple of str
        The columns: "1", the encoded features, the target.
    gram : ndarray of shape (q + 2, q + 2)
        Noisy sums of products of z. The first entry is the number of records, or a noisy count.
    deviation : ndarray of shape (q + 2, q + 2)
        Standard deviation of the noise in each entry.
    own_square : ndarray of bool, shape (q + 2,)
        Which columns are indicators. An indicator is its own square, so that its sum and its sum
        of squares are one number with one noise. None after a scaling stage, which scales them.
    centre, scale : ndarray of shape (q + 2,)
        In the units of the encoded columns; 0 and 1 for the column of ones.
    layout : MomentLayout
    noise : Noise
    is_scaled : bool
        Whether there was a scaling stage, so that mean squares are near 1.
    released : ndarray of shape (layout.dim,) or None
        After a scaling stage, the moments as they were published. ``gram`` combines them with the
        other releases.
    """

    names: tuple[str, ...]
    gram: FloatArray
    deviation: FloatArray
    own_square: NDArray[np.bool_]
    centre: FloatArray
    scale: FloatArray
    layout: MomentLayout
    noise: Any
    is_scaled: bool = False
    released: FloatArray | None = None

    @classmethod
    def of(
        cls,
        plan: MomentPlan,
        released: FloatArray,
        names: tuple[str, ...],
        scaler: RowScaler | None = None,
    ) -> Moments:
        """Return the moments that the release of a plan estimates."""
        layout, width = plan.layout, plan.layout.n_rows
        if scaler is None:
            scaler = RowScaler(Scaler(np.zeros(width - 1), np.ones(width - 1)), np.ones(width))
        gram = layout.gram(released, None if layout.adds else plan.n)
        deviation, unit = _deviations(plan), np.outer(scaler.factor, scaler.factor)
        gram, deviation = gram / unit, deviation / unit
        own = layout.indicators
        own_square = np.zeros(width, dtype=np.bool_)
        own_square[own] = True
        # The square of an indicator is not released: it is the indicator.
        gram[own, own], deviation[own, own] = gram[0, own], deviation[0, own]
        facts = own_square, scaler.centre, scaler.scale, layout, plan.noise
        return cls(names, gram, deviation, *facts)

    def __repr__(self) -> str:
        return f"Moments({listed(self.names[1:])}; {type(self.noise).__name__})"

    @property
    def n_records(self) -> float:
        """The number of records: public, or noisy and at least 1."""
        return max(1.0, float(self.gram[0, 0]))

    def mean(self) -> FloatArray:
        """Return the noisy means of the features and the target, (q + 1,)."""
        return np.asarray(self.centre[1:] + self.scale[1:] * self._mean)

    def covariance(self) -> FloatArray:
        """Return the noisy covariance of the features and the target, (q + 1, q + 1)."""
        own = self.gram[1:, 1:] / self.n_records - np.outer(self._mean, self._mean)
        return np.asarray(own * np.outer(self.scale[1:], self.scale[1:]))

    @property
    def _mean(self) -> FloatArray:
        return np.asarray(self.gram[0, 1:] / self.n_records)

    def to_encoded(self, theta: FloatArray, spread: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return (intercept, coefficients) of the encoded columns, and their covariance."""
        scaler = Scaler(self.centre[1:], self.scale[1:])
        coef, intercept = scaler.undo(theta[None, 1:], theta[:1])
        return np.concatenate([intercept, coef[0]]), scaler.undo_covariance(spread)

    def subset(self, features: list[int], target: int) -> Moments:
        """Return the moments of some columns, given by their positions in ``names``."""
        chosen = [0, *features, target]
        if len(set(chosen)) != len(chosen) or min(chosen[1:], default=1) < 1:
            raise fail("columns", "be distinct and not the target", None)
        grid = np.ix_(chosen, chosen)
        names = tuple(self.names[j] for j in chosen)
        return replace(
            self,
            names=names,
            gram=self.gram[grid],
            deviation=self.deviation[grid],
            own_square=self.own_square[chosen],
            centre=self.centre[chosen],
            scale=self.scale[chosen],
        )

    def noisy(self, intercept: bool, shrink: float = SHRINK) -> NoisyMoments:
        """Return the noisy means, and the size of their noise, for post-processing."""
        d, matrix = self.deviation / self.n_records, self.gram / self.n_records
        matrix[0, 0] = 1.0
        x = slice(1, -1)
        # Deviations are about sigma / (r_i r_j). The r of the features are 1 on average.
        inner = d[x, x]
        # Products within a block are 0, and are not released. A single column has only its square.
        off = inner[~np.eye(len(inner), dtype=bool) & (inner > 0)]
        off = off if off.size else np.diag(inner)
        sigma = _root_mean_square(off, _root_mean_square(d[0, 1:], 1e-300))
        r = np.ones(len(d))
        r[0] = sigma / max(_root_mean_square(d[0, x], sigma), 1e-300)
        r[-1] = sigma / max(_root_mean_square(d[x, -1], sigma), 1e-300)
        r[1:-1] = _row_sizes(inner, sigma)
        if np.isnan(matrix[-1, -1]):
            matrix[-1, -1] = 1.0  # not released: its upper bound
        scaled = d if self.is_scaled and intercept else None
        return NoisyMoments(matrix, sigma, r, intercept, shrink, scaled)


def _deviations(plan: MomentPlan) -> FloatArray:
    """Return the standard deviation of the noise in each entry of the Gram matrix."""
    layout, noise = plan.layout, plan.noise
    moved = variance = variances(noise)
    if layout.shift.any():
        # Entries that were released minus the count get the noisy count added.
        shared = 2 * layout.shift * first_covariance(noise)
        moved = variance + shared + layout.shift**2 * variance[0]
    out = np.zeros((layout.n_rows, layout.n_rows))
    i, j = layout.pairs.T
    out[i, j] = out[j, i] = np.sqrt(moved / layout.scale**2)
    return out


def _root_mean_square(values: FloatArray, otherwise: float) -> float:
    return float(np.sqrt(np.mean(values**2))) if values.size else otherwise


def _row_sizes(d: FloatArray, sigma: float) -> FloatArray:
    """Return r with d_ij about sigma / (r_i r_j) off the diagonal."""
    r = np.ones(len(d))
    off = np.where(np.eye(len(d), dtype=bool), 0.0, d)
    for _ in range(20 * (len(d) > 1)):
        weight = off > 0
        fit = (weight * (sigma / np.where(weight, off, 1.0)) / r).sum(axis=1)
        r = np.sqrt(r * np.where(weight.any(axis=1), fit / np.maximum(weight.sum(axis=1), 1), r))
    return r
