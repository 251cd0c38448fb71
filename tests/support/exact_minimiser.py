"""The exact density of objective perturbation's minimiser, for rows and for weighted rows."""

import math

import numpy as np


def noise_scale(loss, q, epsilon, neighbors):
    return (2 if neighbors == "replace_one" else 1) * loss.slope_bound / (epsilon * q)


def greatest_ratio(law_of, others, records, outputs, neighbors):
    """The greatest log-ratio of densities at outputs, where one record is replaced or added.

    ``law_of`` makes the law of a list of records.
    """
    logs = np.array([law_of([*others, record]).log_density(outputs[:, None]) for record in records])
    if neighbors == "replace_one":
        return np.ptp(logs, axis=0).max()
    return np.abs(logs - law_of(others).log_density(outputs[:, None])).max()


def law_of_numbers(loss, **law):
    """How to make the law of records (x, y) of one number."""

    def law_of(data):
        rows, targets = zip(*data, strict=True)
        return Minimiser(loss, np.array(rows)[:, None], targets, **law)

    return law_of


class Minimiser:
    """The exact law of argmin J for given rows, in the maximum norm (B = 1 on [-1, 1]^d).

    ``counts`` are the numbers of times that each row is there.
    """

    def __init__(self, loss, rows, targets, *, scale, ridge, leverage=math.inf, counts=1):
        self.loss, self.scale, self.ridge = loss, scale, np.asarray(ridge, dtype=float)
        self.rows, self.targets = np.atleast_2d(rows), np.asarray(targets, dtype=float)
        weight = np.minimum(1.0, leverage / np.sum(self.rows**2 / self.ridge, axis=1))
        self.weight = weight * counts

    def log_density(self, a):
        """Density of the minimiser at outputs a (..., d), up to the constant of the law of V."""
        z = a @ self.rows.T
        targets = np.broadcast_to(self.targets, z.shape)
        slope = self.weight * self.loss.slope(z, targets)
        curvature = self.weight * self.loss.curvature(z, targets)
        v = -(slope @ self.rows + self.ridge * a)
        hessian = (self.rows.T * curvature[..., None, :]) @ self.rows + np.diag(self.ridge)
        return self.log_noise(v) + np.linalg.slogdet(hessian)[1]

    def log_noise(self, v):
        """Log-density of V up to its constant."""
        return -np.max(np.abs(v), axis=-1) / self.scale


class Weighted(Minimiser):
    """The same for given weights of rows, and for Gaussian noise if a deviation is given."""

    def __init__(self, loss, rows, targets, weights, *, scale, ridge, deviation=None):
        ridge = np.broadcast_to(np.asarray(ridge, dtype=float), np.shape(np.atleast_2d(rows))[1:])
        super().__init__(loss, rows, targets, scale=scale, ridge=ridge)
        self.weight, self.deviation = np.asarray(weights, dtype=float), deviation

    def log_noise(self, v):
        if self.deviation is None:
            return super().log_noise(v)
        return -np.sum(v**2, axis=-1) / self.deviation**2 / 2
