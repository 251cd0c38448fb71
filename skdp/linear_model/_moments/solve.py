"""Released moments, and the coefficients that follow from them.

This uses only published numbers and public facts, and costs no privacy.

M is the released matrix of means of (1, x, y)(1, x, y)'. Its entries have noise of standard
deviation about sigma / (r_i r_j) for a public r. In the metric of r the noise has the same size in
every direction. The true M is positive semidefinite. Directions in which it is smaller than the
noise contain no information on the coefficients.

Of scaled columns a posterior mean is computed. Scaled columns have means near 0 and mean squares
near 1. So before the release a matrix S of the features' moments is expected near the unit matrix,
and a coefficient is as likely positive as negative. Each moment is shrunk towards this expectation
by the share of noise in its variance. Without any products of features the result is a regression
on each feature alone, and with exact ones it is least squares: the change between them is
continuous. Products b with the target, whose noise has the variance v in all, are shrunk by the
factor |b|^2 / (|b|^2 + v): from one half, if all of b is noise, to 1.

The coefficients that the moments give are a *start*. The cross release contains the products of
its residuals with the features, and the posterior mean of their regression is added. So the noise
of S matters only for what the start has not found, and residuals need less noise than the target.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.special import erf

from skdp.domain.columns import listed
from skdp.geometry.moments import MomentLayout
from skdp.linear_model._inference.estimate import NoisyEstimate
from skdp.linear_model._moments.advice import MomentPlan, ScaledMoments
from skdp.linear_model._moments.theorem import RowScaler
from skdp.linear_model._shared.design import Design
from skdp.linear_model._shared.gram import Estimates
from skdp.linear_model._shared.scaling import MOMENTS, Scaler
from skdp.trusted.arrays import FloatArray
from skdp.trusted.checks import fail
from skdp.trusted.noise import first_covariance, variances

# Upper bound on the square of a scale.
MOST_VARIANCE = 0.5
# Lower limit of the mean weight of a row.
LEAST_WEIGHT = 0.2
# The usual bias of the mean of a skewed target, and of its residuals, in their standard deviations:
# rows far from the centre have smaller weights, and residuals are clipped. It is not in the noise.
SKEWED = 0.05
# Eigenvalues below this many spectral norms of the noise are shrunk. Chosen on simulated
# regressions (docs/mathematics/automatic_choices.md); results hardly change nearby. Rows of bounded
# length have small eigenvalues, of which noise is a larger part.
SHRINK, SHRINK_IN_BALL = 0.5, 1.0


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
    start : ndarray of shape (q + 2,)
        Coefficients of (1, x) whose residuals were released, then 0; or all 0. Products with the
        target are those of the residuals, plus those of the features times ``start``.
    common : ndarray of shape (q + 2,)
        Products of two entries are covariances of the noise in sums of products with the target.
    start_covariance : ndarray of shape (q + 2, q + 2)
        Covariance of ``start`` under the noise, without the constant and the target.
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
    start: FloatArray
    common: FloatArray
    start_covariance: FloatArray
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
        layout, width = plan.layout, plan.layout.n_rows
        if scaler is None:
            scaler = RowScaler(np.zeros(width), np.ones(width), np.ones(width))
        variance = variances(plan.noise)
        if layout.shift.any():
            # Entries that were released minus the count get the noisy count added.
            shared = 2 * layout.shift * first_covariance(plan.noise)
            variance = variance + shared + layout.shift**2 * variance[0]
        deviation = np.zeros((width, width))
        i, j = layout.pairs.T
        deviation[i, j] = deviation[j, i] = np.sqrt(variance / layout.scale**2)
        unit = np.outer(scaler.factor, scaler.factor)
        gram = layout.gram(released, None if layout.adds else plan.n) / unit
        deviation = deviation / unit
        at = layout.indicators
        own_square = np.zeros(width, dtype=np.bool_)
        own_square[at] = True
        # The square of an indicator is not released: it is the indicator.
        gram[at, at], deviation[at, at] = gram[0, at], deviation[0, at]
        facts = own_square, scaler.centre, scaler.scale, layout, plan.noise
        none = np.zeros(width)
        return cls(names, gram, deviation, *facts, none, none, np.zeros((width, width)))

    def __repr__(self) -> str:
        return f"Moments({listed(self.names[1:])}; {type(self.noise).__name__})"

    @property
    def n_records(self) -> float:
        """The number of records: public, or noisy and at least 1."""
        return max(1.0, float(self.gram[0, 0]))

    def mean(self) -> FloatArray:
        """Return the noisy means of the features and the target, (q + 1,)."""
        return np.asarray(self.centre[1:] + self.scale[1:] * (self.gram[0, 1:] / self.n_records))

    def covariance(self) -> FloatArray:
        """Return the noisy covariance of the features and the target, (q + 1, q + 1)."""
        mean = self.gram[0, 1:] / self.n_records
        covariance = self.gram[1:, 1:] / self.n_records - np.outer(mean, mean)
        return np.asarray(covariance * np.outer(self.scale[1:], self.scale[1:]))

    def subset(self, features: list[int], target: int) -> Moments:
        """Return the moments of some columns, given by their positions in ``names``."""
        chosen = [0, *features, target]
        if len(set(chosen)) != len(chosen) or min(chosen[1:], default=1) < 1:
            raise fail("columns", "be distinct and not the target", None)
        grid, kept = np.ix_(chosen, chosen), float(target == len(self.names) - 1)
        return replace(
            self,
            names=tuple(self.names[j] for j in chosen),
            gram=self.gram[grid],
            deviation=self.deviation[grid],
            own_square=self.own_square[chosen],
            centre=self.centre[chosen],
            scale=self.scale[chosen],
            start=kept * self.start[chosen],
            common=kept * self.common[chosen],
            start_covariance=kept * self.start_covariance[grid],
        )

    def noisy(self, intercept: bool, shrink: float = SHRINK) -> NoisyMoments:
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
        off = np.where(np.eye(len(inner), dtype=bool), 0.0, inner)
        weight, inside = off > 0, np.ones(len(inner))
        for _ in range(20 * (len(inner) > 1)):
            fit = (weight * (sigma / np.where(weight, off, 1.0)) / inside).sum(axis=1)
            mean = fit / np.maximum(weight.sum(axis=1), 1)
            inside = np.sqrt(inside * np.where(weight.any(axis=1), mean, inside))
        r[1:-1] = inside
        if np.isnan(matrix[-1, -1]):
            matrix[-1, -1] = 1.0  # not released: its upper bound
        # The products of the start's coefficients are not among those with the residuals.
        variance = d**2
        variance[:-1, -1] = np.maximum(variance[:-1, -1] - (variance @ self.start**2)[:-1], 0.0)
        variance[-1] = variance[:, -1]
        return NoisyMoments(matrix, sigma, r, intercept, shrink, np.sqrt(variance), self)


def _root_mean_square(values: FloatArray, otherwise: float) -> float:
    return float(np.sqrt(np.mean(values**2))) if values.size else otherwise


# Moments of scaled columns


def _first_deviations(plan: ScaledMoments, n: float) -> FloatArray:
    """Return the standard deviations of the means of (1, x, y) in the scaling stage."""
    sizes, adds = plan.first.deviations(n), int(plan.first.sums.is_counted)
    return np.append(sizes[0] if adds else 0.0, sizes[adds : adds + plan.layout.n_rows - 1])


def row_scaler(plan: ScaledMoments, seen: Estimates) -> RowScaler:
    """Return the map of the rows whose moments are released."""
    numbers, width = plan.layout.numbers, plan.layout.n_rows
    columns = np.append(numbers, width - 1)
    centre = seen.mean[columns - 1].clip(-1, 1)
    noise = _first_deviations(plan, seen.n)[columns]
    variance = np.roll(seen.square, -1) - centre**2  # the target's square is the first one
    scale = np.sqrt(MOMENTS.variance(variance, noise).clip(max=MOST_VARIANCE))
    scaler = Scaler.of(width - 2, columns - 1, centre, scale)
    return RowScaler(np.append(0.0, scaler.centre), np.append(1.0, scaler.scale), plan.factor)


def pooled(
    plan: ScaledMoments,
    seen: Estimates,
    scaler: RowScaler,
    released: FloatArray,
    names: tuple[str, ...],
) -> Moments:
    """Return the moments with means that two releases estimate, weighted by their precisions."""
    alone = Moments.of(plan, released, names, scaler)
    # Indicators have the units of equally frequent levels, other columns those of the release.
    centre, scale = alone.centre.copy(), alone.scale.copy()
    for columns in plan.layout.block_columns:
        share = 1 / (len(columns) + 1)
        centre[columns], scale[columns] = share, math.sqrt(share * (1 - share))
    # The sum of the weights of the rows.
    weight = min(seen.n, max(LEAST_WEIGHT * seen.n, float(alone.gram[0, 0])))
    rescaled = alone.scale != scale
    step = np.diag(np.where(rescaled, 1 / scale, 1.0))
    step[rescaled, 0] = -centre[rescaled] / scale[rescaled]
    matrix = step @ (alone.gram / weight) @ step.T
    variance = step**2 @ (alone.deviation / weight) ** 2 @ step.T**2
    # The means of the scaling stage.
    deviation = _first_deviations(plan, seen.n)
    mean = (np.append(1.0, seen.mean) - centre) / scale
    noise = (deviation / scale) ** 2 + (centre * deviation[0] / scale) ** 2
    doubt = np.append(np.zeros(len(mean) - 1), SKEWED**2)
    kept = noise / (variance[0] + doubt + noise + 1e-300)
    matrix[0] = matrix[:, 0] = kept * matrix[0] + (1 - kept) * mean
    variance[0] = variance[:, 0] = kept**2 * variance[0] + (1 - kept) ** 2 * noise
    matrix[0, 0], variance[0, 0] = 1.0, deviation[0] ** 2
    return replace(
        alone,
        gram=seen.n * matrix,
        deviation=seen.n * np.sqrt(variance),
        own_square=np.zeros_like(alone.own_square),
        centre=centre,
        scale=scale,
        is_scaled=True,
        released=released,
    )


def with_residuals(
    plan: ScaledMoments,
    scaler: RowScaler,
    moments: Moments,
    prior: FloatArray | None,
    release: Callable[[RowScaler], FloatArray],
) -> Moments:
    """Return the moments with products of residuals; ``release`` publishes those of rows in a box.

    They are divided by the part that clipping leaves of the covariance of normal values.
    """
    noisy = moments.noisy(True)
    start, *equations = posterior(noisy.matrix, noisy.deviation, prior, STRONG)
    spread = coefficient_covariance(noisy, start, *equations)
    u = np.append(-start, 1.0)
    square = min(max(float(u @ noisy.matrix @ u), LEAST_RESIDUAL), 1.0)
    coef, intercept = Scaler(moments.centre[1:], moments.scale[1:]).undo(start[None, 1:], start[:1])
    # Finite, so that residuals are numbers.
    plane = np.nan_to_num(np.append(intercept, coef)).clip(-1e9, 1e9)
    centre, scale, factor, left = scaler.centre.copy(), scaler.scale.copy(), *np.ones((2, len(u)))
    centre[-1], scale[-1] = 0.0, scale[-1] * math.sqrt(square)
    at = np.append(plan.layout.numbers, -1)
    # No column is further from its centre than the bounds of the domain.
    factor[at] = 1 / np.minimum(plan.radius, (1 + np.abs(centre[at])) / scale[at])
    left[at] = erf(math.sqrt(0.5) / factor[at])
    crossed = release(RowScaler(centre, scale, factor, clips=True, plane=plane))
    # Columns of levels have other units in the moments, and are not centred in the box.
    far = np.where(scaler.scale != moments.scale, moments.centre, 0.0)[:-1]
    unit = left * factor * moments.scale / scale
    unit = unit[-1] * unit[:-1]
    noise, shared = variances(plan.cross), first_covariance(plan.cross) * far
    noise = (noise - 2 * shared + far**2 * noise[0]) / unit**2
    gram, variance = moments.gram.copy(), moments.deviation**2
    # The part of a product with the target that the start predicts, and its noise.
    part, moved = gram[:-1, :-1] @ start, variance[:-1, :-1] @ start**2
    before = variance[:-1, -1] + moved
    doubt = np.append((SKEWED * moments.n_records) ** 2 * square, np.zeros(len(noise) - 1))
    kept = (noise + doubt) / (before + noise + doubt)
    residual = kept * (gram[:-1, -1] - part) + (1 - kept) * (crossed - far * crossed[0]) / unit
    gram[-1, :-1] = gram[:-1, -1] = part + residual
    variance[-1, :-1] = variance[:-1, -1] = moved + kept**2 * before + (1 - kept) ** 2 * noise
    # Columns of levels share the noise of the sum of residuals.
    common = np.append(-1.0, far[1:]) * (1 - kept) * np.sqrt(noise[0]) * unit[0] / unit
    found = replace(moments, gram=gram, deviation=np.sqrt(variance), common=np.append(common, 0.0))
    spread = np.pad(spread[1:, 1:], 1)
    return replace(found, start=np.append(start, 0.0), start_covariance=spread)


# Variances of the products of two features and of their squares, before the release.
PRODUCT_VARIANCE, SQUARE_VARIANCE = 0.1, 1.0
# The part of the target's variance that features are expected to explain. b'S^-1 b is this part,
# so that products b with the target make S larger in their direction.
EXPLAINED = 0.65
# Half of the spectral norm of the noise that is left in S, and more for a start: an error in a
# direction that the features hardly have would not be seen in its residuals.
LEFT, STRONG = 0.5, 1.5
# Of the mean square of residuals, a lower limit. The target's is about 1.
LEAST_RESIDUAL = 0.1
# The penalty on differences of neighbouring coefficients of a spline, in units of the domain's.
SMOOTH = 0.05


def prior_of(design: Design) -> FloatArray | None:
    """Return the covariance of coefficients before the release; None for the unit matrix.

    Neighbouring coefficients of a spline are similar. Their mean variance is 1.
    """
    prior, shift = np.eye(design.domain.n_encoded), int(design.intercept)
    for block, penalty in zip(design.blocks, design.penalties, strict=True):
        if penalty is not None:
            part = np.linalg.inv((1 - SMOOTH) * np.eye(len(penalty)) + SMOOTH * penalty)
            at = slice(block.start - shift, block.stop - shift)
            prior[at, at] = part * (len(part) / np.trace(part))
    return prior if any(penalty is not None for penalty in design.penalties) else None


def posterior(
    matrix: FloatArray,
    deviation: FloatArray,
    prior: FloatArray | None = None,
    strength: float = LEFT,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the intercept with the coefficients, the map of b to coefficients, and S.

    ``matrix`` has noisy means of products of (1, x, y), and ``deviation`` the standard deviation of
    the noise in each entry. ``prior`` is the covariance of the coefficients before the release, in
    the unit of their usual variance; None stands for the unit matrix. Weak directions are shrunk in
    proportion to ``strength``.
    """
    variance = deviation**2
    mean, target = matrix[0, 1:-1], float(matrix[0, -1])
    # James and Stein's factor: centring by means that are noise would add this noise.
    ratio = float(np.sum(mean**2 / np.maximum(variance[0, 1:-1], 1e-300)))
    centre = (max(0.0, 1 - len(mean) / ratio) if ratio > 0 else 0.0) * mean
    b = matrix[1:-1, -1] - centre * target
    noise = variance[1:-1, -1] + centre**2 * variance[0, -1] + target**2 * variance[0, 1:-1]
    products, spread = matrix[1:-1, 1:-1] - np.outer(centre, centre), variance[1:-1, 1:-1]
    before = np.full(products.shape, PRODUCT_VARIANCE)
    np.fill_diagonal(before, SQUARE_VARIANCE)
    weight = before / (before + spread)
    S = weight * products + (1 - weight) * np.eye(len(b))
    # With much noise |b|^2 may be more than features can explain.
    signal = min(float(b @ b), EXPLAINED)
    if signal <= 0:
        return np.append(target, np.zeros(len(b))), np.zeros((len(b), len(b))), S
    factor = signal / (signal + float(noise.sum()))
    S = S + (1 - weight) * np.outer(b, b) * (factor / EXPLAINED)
    # In coordinates whose prior covariance is the unit matrix.
    root = None if prior is None else np.linalg.cholesky(prior)
    values, vectors = eigh(S if root is None else root.T @ S @ root)
    level = strength * float(np.sqrt(len(values) * np.mean(weight**2 * spread)))
    vectors = vectors if root is None else root @ vectors
    inverse = factor * ((vectors * _above_noise(values, level)) @ vectors.T)
    theta = inverse @ b
    return np.append(target - mean @ theta, theta), inverse, S


def _above_noise(w: FloatArray, level: float) -> FloatArray:
    """Return 1 / w for w far above the noise, and smaller values for w near the noise."""
    shifted = w.clip(min=0) + level / 2
    # Below the level this decreases: b is small where w is small.
    return np.asarray(shifted / np.maximum(shifted**2 + level**2, 1e-300))


# The ridge of postprocess="ridge", in spectral norms of the noise.
RIDGE = 1.0
# "pinv" is Awan & Slavkovic 2020, Equation 4.
RECIPES = ("auto", "psd", "ridge", "pinv")


@dataclass(frozen=True, eq=False)
class NoisyMoments:
    """Noisy means of (1, x, y)(1, x, y)', and the size of the noise."""

    matrix: FloatArray  # symmetric, (q + 2, q + 2); its first entry is 1
    sigma: float  # the noise of entry (i, j) has standard deviation about sigma / (r_i r_j)
    r: FloatArray  # (q + 2,)
    intercept: bool  # whether the model has an intercept
    shrink: float  # eigenvalues below this times ``spectral`` are shrunk
    # The noise of each mean, for products with the target that of those with the residuals.
    deviation: FloatArray
    source: Moments
    prior: FloatArray | None = None

    @property
    def spectral(self) -> float:
        """About half of the spectral norm of the noise, in the metric of r."""
        return self.sigma * float(np.sqrt(len(self.r)))

    def semidefinite(self) -> NoisyMoments:
        """Return the nearest positive semidefinite moments, in the metric of r."""
        values, vectors = eigh(self.matrix * np.outer(self.r, self.r))
        matrix = (vectors * values.clip(min=0)) @ vectors.T / np.outer(self.r, self.r)
        return replace(self, matrix=matrix)

    def steadied(self) -> NoisyMoments:
        """Return the moments with means shrunk towards 0, the middle of the bounds.

        The factors are James and Stein's, one for all features and one for the target. Centring by
        a mean that is mostly noise would add this noise to all other moments.
        """
        matrix = self.matrix.copy()
        noise = (self.sigma / (self.r[0] * self.r)) ** 2
        for part in (slice(1, -1), slice(-1, None)):
            size = float(np.sum((matrix[0, part] / max(matrix[0, 0], 1e-300)) ** 2))
            kept = max(0.0, 1 - float(np.sum(noise[part])) / size) if size > 0 else 1.0
            matrix[0, part] *= kept
            matrix[part, 0] *= kept
        return replace(self, matrix=matrix)


def solve(postprocess: Any, moments: NoisyMoments) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the intercept with the coefficients, what replaces the inverse of A, and A, (q, q).

    A theta = b are the normal equations, centred if there is an intercept. ``postprocess`` is one
    of ``RECIPES`` or a function of `NoisyMoments`.
    """
    source = moments.source
    is_auto = isinstance(postprocess, str) and postprocess == "auto"
    if not (is_auto and source.is_scaled and moments.intercept):
        return _by_recipe(postprocess, moments)
    matrix = moments.matrix.copy()
    matrix[:, -1] -= matrix @ source.start
    step, inverse, S = posterior(matrix, moments.deviation, moments.prior)
    return source.start[:-1] + step, inverse, S


def _by_recipe(
    postprocess: Any, moments: NoisyMoments
) -> tuple[FloatArray, FloatArray, FloatArray]:
    recipe = postprocess if isinstance(postprocess, str) else "auto"
    usable = moments.semidefinite() if recipe in ("auto", "psd") else moments
    if recipe == "auto" and len(moments.r) > 2:  # without features the mean is the result
        usable = usable.steadied()
    m, mean = usable.matrix, None
    A, b = m[1:-1, 1:-1], m[1:-1, -1]
    if moments.intercept and m[0, 0] > 0:
        mean = m[1:, 0] / m[0, 0]
        centred = m[1:, 1:] - m[0, 0] * np.outer(mean, mean)
        A, b = centred[:-1, :-1], centred[:-1, -1]
    r = moments.r[1:-1]
    w, vectors = eigh(A * np.outer(r, r)) if len(r) else (r, np.empty((0, 0)))
    if recipe == "auto":
        inverse_of_w = _above_noise(w, moments.shrink * moments.spectral)
    elif recipe == "ridge":
        inverse_of_w = 1 / (w.clip(min=0) + RIDGE * moments.spectral)
    else:
        cut = len(w) * np.finfo(float).eps * float(np.abs(w).max(initial=1e-300))
        inverse_of_w = np.divide(1.0, w, out=np.zeros_like(w), where=np.abs(w) > cut)
    scaled = r[:, None] * vectors
    inverse = scaled * inverse_of_w @ scaled.T
    if isinstance(postprocess, str):
        theta = inverse @ b
        # The plane goes through the means.
        intercept = 0.0 if mean is None else mean[-1] - mean[:-1] @ theta
        return np.append(intercept, theta), inverse, A
    theta = np.asarray(postprocess(moments), dtype=float)
    if theta.shape != (len(r) + 1,) or not np.all(np.isfinite(theta)):
        rule = f"return {len(r) + 1} finite numbers: the intercept, the coefficients"
        raise fail("postprocess", rule)
    return theta, inverse, A


def coefficient_covariance(
    noisy: NoisyMoments, theta: FloatArray, inverse: FloatArray, matrix: FloatArray
) -> FloatArray:
    """Return the covariance of (intercept, coefficients) under the noise: the delta method.

    The normal equations of the step theta - start are G (theta - start) = g. Noise dG and dg moves
    it by K e, with e = dg - dG (theta - start) and the matrix K that replaced the inverse of G. Of
    an error of the start, (I - K G) is left. The result describes the effect of the noise, not the
    distance from coefficients without privacy: K is held fixed.
    """
    u = noisy.source.start + np.append(-theta, 1.0)
    e = noise_covariance(noisy.deviation**2, noisy.source.own_square, u, u)
    common = noisy.source.common[:-1] / noisy.source.n_records
    e += np.outer(common, common) - np.diag(common**2)
    K, left = np.zeros((len(theta), len(theta))), np.zeros((len(theta), len(inverse)))
    K[1:, 1:], left[1:] = inverse, np.eye(len(inverse)) - inverse @ matrix
    if noisy.intercept:
        mean = noisy.matrix[0, 1:-1] / noisy.matrix[0, 0]
        K[0, 1:] = K[1:, 0] = -inverse @ mean
        K[0, 0] = 1 + mean @ inverse @ mean
        left[0] = -mean @ left[1:]
    before = noisy.source.start_covariance[1:-1, 1:-1]
    return np.asarray(K @ e @ K.T + left @ before @ left.T)


def noise_covariance(
    variance: FloatArray, own_square: NDArray[np.bool_], u: FloatArray, v: FloatArray
) -> FloatArray:
    """Return Cov(N u, N v) without the last entries, for symmetric noise N of given variances.

    The entries are uncorrelated. The sum of a column that is its own square, in the first row, and
    its sum of squares have one noise. Returns (k, k) for ``u`` and ``v`` of shape (k + 1,).
    """
    # An entry off the diagonal is in two equations, with the coefficient of the other column.
    found = variance * np.outer(v, u)
    np.fill_diagonal(found, variance @ (u * v))
    own = np.flatnonzero(own_square)
    # The noise of an indicator's mean and of its square is the same: add their covariance.
    shared = variance[0, own]
    found[own, own] += shared * (u[0] * v[own] + u[own] * v[0])
    found[0, own] += shared * u[own] * v[own]
    found[own, 0] += shared * u[own] * v[own]
    return np.asarray(found[:-1, :-1])


def estimate_of(
    moments: FloatArray,
    variance: FloatArray,
    own_square: NDArray[np.bool_],
    n: float,
    excess: float,
) -> NoisyEstimate:
    """Return the solution of noisy normal equations, with errors of one variance.

    ``moments`` are the means of products of (1, x, y), and ``excess`` bounds the excess kurtosis of
    linear combinations of their noise. A noisy matrix that is not positive definite hides all.
    """
    H, b = moments[:-1, :-1], moments[:-1, -1]
    k = len(b)
    inverse = np.linalg.pinv(H, hermitian=True)
    theta = np.asarray(inverse @ b)
    u, unit = np.append(-theta, 1.0), np.eye(k + 1)
    noise = noise_covariance(variance, own_square, u, u)
    # u'(G + N)u is least at the solution, and lower than at the truth by what the noise has fallen.
    rest = float(u @ moments @ u) / max(1 - k / n, 1 / n) + float(np.sum(inverse * noise))
    weight = np.outer(u, u)
    off, own = 2 * np.triu(weight, 1), np.flatnonzero(own_square)
    off[0, own] += weight[own, own]
    diagonal = np.where(own_square, 0.0, np.diag(weight))
    variance_of_square = float(np.sum(off**2 * variance) + diagonal**2 @ np.diag(variance))
    error_variance = max(rest, math.sqrt(variance_of_square) / 2)
    # Row j of ``w`` is the direction of coefficient j, with the entry 1 at j.
    usable = bool(np.linalg.eigvalsh(H)[0] > 0)
    w = inverse / (np.diag(inverse)[:, None] if usable else 1.0)
    parts = [noise_covariance(variance, own_square, one, one) for one in unit[:-1]]
    shared = [noise_covariance(variance, own_square, u, one) for one in unit[:-1]]
    return NoisyEstimate(
        theta,
        np.zeros(k),
        1 / np.diag(inverse) if usable else np.zeros(k),
        error_variance / n * w @ H @ w.T,
        w @ noise @ w.T,
        np.array([row @ part @ row for row, part in zip(w, parts, strict=True)]),
        np.array([row @ part @ row for row, part in zip(w, shared, strict=True)]),
        np.full(k, excess),
    )
