"""The logarithm of a hull's volume, estimated along random rays (docs/proofs/hulls.md)."""

import math

import numpy as np


def log_volume(hull, n, seed=0):
    """Return an estimate from n rays of the box around the hull, and its standard error."""
    box, _ = hull._box_and_share
    _, shares = box.shares(hull.body, n, np.random.default_rng(seed))
    error = shares.std(ddof=1) / math.sqrt(n) / shares.mean()
    return box.log_volume() + math.log(shares.mean()), error
