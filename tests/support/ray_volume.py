"""The logarithm of a hull's volume, estimated along random rays (docs/proofs/hulls.md)."""

import math

import numpy as np


def log_volume(hull, n, seed=0):
    """Return an estimate from n rays of the box around the hull, and its standard error."""
    box, unit = hull.bounding_box(), np.random.default_rng(seed).uniform(-1, 1, (n, hull.dim))
    shares = (np.abs(unit).max(axis=1) / hull.gauge(unit * box)) ** hull.dim
    error = shares.std(ddof=1) / math.sqrt(n) / shares.mean()
    return np.log(2 * box).sum() + math.log(shares.mean()), error
