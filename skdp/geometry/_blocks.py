"""The law of one block of indicators in a hull of encoded rows.

Given the bounds a and b, a block u of m coordinates is uniform on sum(u^+) <= a, sum(u^-) <= b.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from scipy.special import gammaln, softmax

from skdp._arrays import FloatArray
from skdp._draws import exponentials


def log_binomials(m: int) -> FloatArray:
    k = np.arange(m + 1)
    return np.asarray(gammaln(m + 1) - gammaln(k + 1) - gammaln(m - k + 1))


def log_convolve(p: FloatArray, q: FloatArray) -> FloatArray:
    """Return the log coefficients of the product of two polynomials, both given in logs."""
    out = np.full(len(p) + len(q) - 1, -np.inf)
    for k, coefficient in enumerate(q):
        out[k : k + len(p)] = np.logaddexp(out[k : k + len(p)], p + coefficient)
    return out


def positive_count_law(m: int, a: FloatArray, b: FloatArray) -> FloatArray:
    """Return the probabilities of k = 0..m positive coordinates in a block, (n, m + 1)."""
    log_odds = np.log(a) - np.log(b)
    return np.asarray(softmax(2 * log_binomials(m) + np.arange(m + 1) * log_odds[:, None], axis=1))


def draw_block(m: int, a: FloatArray, b: FloatArray, rng: Generator) -> FloatArray:
    """Draw a block uniform on {A <= a, N <= b}: (n, m)."""
    cdf = np.cumsum(positive_count_law(m, a, b), axis=1)
    level = rng.random(len(a)) * cdf[:, -1]
    n_positive = (cdf[:, :-1] <= level[:, None]).sum(axis=1)
    positive = np.arange(m) < n_positive[:, None]
    # Uniform on {x >= 0, sum x <= 1}: exponentials over their sum with one more.
    sizes = exponentials((len(a), m), rng)
    spare_up, spare_down = exponentials((2, len(a)), rng)
    up = a / (np.where(positive, sizes, 0).sum(axis=1) + spare_up)
    down = b / (np.where(positive, 0, sizes).sum(axis=1) + spare_down)
    block = sizes * np.where(positive, up[:, None], -down[:, None])
    return rng.permuted(block, axis=1, out=block)


def block_moments(
    m: int, a: FloatArray, b: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return E u_j, E u_j^2 and E u_i u_j within a block, given a: each (n,)."""
    law, k = positive_count_law(m, a, b), np.arange(m + 1)
    j, up, down = m - k, a[:, None] / (k + 1), b[:, None] / (m - k + 1)
    # up and down are the means of one positive and of one negative coordinate's size.
    mean = (k * up - j * down) / m
    up_2, down_2 = up * a[:, None] / (k + 2), down * b[:, None] / (j + 2)
    square = 2 * (k * up_2 + j * down_2) / m
    pairs = k * (k - 1) * up_2 + j * (j - 1) * down_2 - 2 * k * j * up * down
    cross = pairs / max(m * (m - 1), 1)
    return (law * mean).sum(axis=1), (law * square).sum(axis=1), (law * cross).sum(axis=1)


def greatest_sums(
    blocks: list[FloatArray], shape: tuple[int, ...]
) -> tuple[FloatArray, FloatArray]:
    """Return the greatest sum of positive parts over the blocks, and of negative parts."""
    up, down = np.zeros(shape), np.zeros(shape)
    for block in blocks:
        up = np.maximum(up, block.clip(min=0).sum(axis=-1))
        down = np.maximum(down, (-block).clip(min=0).sum(axis=-1))
    return up, down
