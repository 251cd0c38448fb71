"""Survey weights in the wage equation of the Current Population Survey, with and without privacy.

The table is fitted with the weights of the survey, trimmed at a public round number, and without
them. "least squares" are the slopes without privacy, with robust standard errors (HC1); the others
are medians over repetitions of the noise: of the private slopes of ``infer``, of their distance
from least squares with the same weights, in standard errors, and of the lengths of the intervals
over those without privacy. Epsilon is that of fit and ``infer`` together. Needs SKDP_DATA.

    SKDP_DATA=path/to/datasets python -m examples.benchmarks.intervals.weights --repeats 50
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np

from examples.benchmarks.intervals.inference import LEVEL, NORMAL, SHARE
from examples.benchmarks.shared import report
from examples.benchmarks.shared.data import read
from examples.benchmarks.shared.report import FloatArray, Row
from skdp import DPLinearRegression, datasets

SET, EPSILONS = "cps_asec_2024_wages", [1.0, 4.0]
# The file has hundredths of persons; most workers stand for less than 5,000.
COLUMN, UNIT, MOST = "A_FNLWGT", 100.0, 5000.0


def survey() -> tuple[Any, FloatArray, FloatArray]:
    """Return the columns, the target and the weights, in persons."""
    data = read(SET)
    table = datasets.fetch_cps_wages(as_frame=True, keep=[COLUMN])
    return data.X, data.y, table[COLUMN].to_numpy() / UNIT


def least_squares(X: FloatArray, y: FloatArray, weights: FloatArray) -> tuple[Any, Any]:
    """Return the slopes of weighted least squares and their robust standard errors."""
    rows = np.column_stack([np.ones(len(X)), X])
    inverse = np.linalg.inv((rows * weights[:, None]).T @ rows)
    theta = inverse @ (rows.T @ (weights * y))
    scores = rows * (weights * (y - rows @ theta))[:, None]
    factor = len(rows) / (len(rows) - len(theta))
    error = np.sqrt(factor * np.diag(inverse @ (scores.T @ scores) @ inverse))
    return theta[1:], error[1:]
