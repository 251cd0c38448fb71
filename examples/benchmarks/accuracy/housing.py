"""Distance of private coefficients to those of least squares on house sales (King County).

The comparison of Awan & Slavkovic 2020, section 5.3, Figure 5, on other data: seven numbers and
indicators, prices and sizes as logarithms, K-norm noise with Equation 4, and ours. Once the
indicators are numbers in a box, as in the paper; once their domain is known ("known"): of a
column of levels one is 1 at a time (Remark 5.1). The distance is that of the coefficients, all of
columns scaled to [-1, 1], or the root mean square of the differences in the predictions. Reads
the folder that SKDP_DATA names.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from examples.benchmarks.intervals.interval_coverage import IntArray, Method, our_coefficients
from examples.benchmarks.shared import report
from examples.benchmarks.shared.data import read
from examples.benchmarks.shared.report import FloatArray
from skdp import Domain
from skdp.linear_model._moments.advice import MomentPlan
from skdp.linear_model._shared.gram import exact_gram
from skdp.rows import MemoryRows

SET = "king_county_house_sales"
EPSILONS = [2.0**k for k in range(-3, 6)]
# As in the paper: prices from 105 to 905 thousand dollars, sizes up to 3000 square feet.
PRICES, SIZES, LOTS = (105_000, 905_000), (200, 3000), (400, 500_000)
NUMBERS = {
    "sqft_lot": tuple(np.log(LOTS)),
    "sqft_living": tuple(np.log(SIZES)),
    "lat": (47.1, 47.8),
    "long": (-122.6, -121.0),
    "sale_month": (1, 12),
    "yr_built": (1900, 2015),
    "bedrooms": (0, 10),
}
# Six groups of postcodes by their first four digits: with seven numbers, 12 predictors.
REGIONS = {"9800": 0, "9801-2": 1, "9803-4": 3, "9805-9": 5, "9810-1": 10, "9812-9": 12}

PLANNED = {
    "l1": (False, Method("l1", body="box")),
    "linf": (False, Method("linf", body="box")),
    "K_T": (False, Method("hull", body="K_T")),
    "linf, known": (True, Method("hull", body="least box")),
}
OURS = {"auto": False, "auto, known": True}
METHODS = ["l1", "linf", "K_T", "auto", "linf, known", "auto, known"]


@dataclass(frozen=True, eq=False)
class Coded:
    """The sales in one of the two codings.

    Attributes
    ----------
    domain : Domain
        Of the encoded rows, and of the encoded target.
    X : ndarray of shape (n, q)
        Encoded rows.
    y : ndarray of shape (n,), entries in [-1, 1]
    gram : ndarray of int
        Of the rows (1, x, y), in units of 2^-40.
    indicators : ndarray of bool, (q,)
        The columns that are 0 or 1 and not in [-1, 1].
    """

    domain: Domain
    X: FloatArray
    y: FloatArray
    gram: IntArray
    indicators: NDArray[np.bool_]

    def in_units(self, theta: FloatArray) -> FloatArray:
        """Return (intercept, slopes) for columns that are all in [-1, 1]."""
        halves = np.where(self.indicators, theta[1:] / 2, 0.0)
        slopes = np.where(self.indicators, halves, theta[1:])
        return np.concatenate([[theta[0] + halves.sum()], slopes])

    @cached_property
    def least_squares(self) -> FloatArray:
        """The coefficients without privacy."""
        gram = self.gram.astype(float)
        return np.asarray(np.linalg.lstsq(gram[:-1, :-1], gram[:-1, -1])[0])

    def distance(self, theta: FloatArray, measure: str) -> float:
        """Return how far coefficients are from those of least squares."""
        if measure == "coefficients":
            away = self.in_units(theta) - self.in_units(self.least_squares)
            return float(np.linalg.norm(away))
        away = theta - self.least_squares
        means = self.gram[:-1, :-1].astype(float) / float(self.gram[0, 0])
        return math.sqrt(max(0.0, float(away @ means @ away)))


def sales(levels: str) -> tuple[pd.DataFrame, FloatArray, dict[str, list[str]]]:
    """Return the table, the logarithms of the prices, and the columns of levels."""
    data = read(SET)
    low, high = PRICES
    kept = (data.y >= low) & (data.y <= high) & (data.X["sqft_living"].to_numpy() <= SIZES[1])
    table = data.X.loc[kept].reset_index(drop=True)
    for name in ("sqft_lot", "sqft_living"):
        table[name] = np.log(table[name])
    codes = table["zipcode"].astype(str)
    if levels == "zipcode":
        # Of the waterfront's two levels the second is the indicator.
        columns = {"zipcode": sorted(set(read(SET).X["zipcode"])), "waterfront": ["0", "1"]}
    else:
        table["region"] = [region_of(code) for code in codes]
        columns = {"region": list(REGIONS)}
    return table[[*NUMBERS, *columns]], np.log(data.y[kept]), columns


def region_of(code: str) -> str:
    found = int(code[2:4])
    return max((name for name in REGIONS if REGIONS[name] <= found), key=REGIONS.__getitem__)


@report.remembered
def coded(levels: str, known: bool) -> Coded:
    table, y, columns = sales(levels)
    low, high = np.log(PRICES)
    y = (2 * y - low - high) / (high - low)
    if known:
        domain = Domain({**NUMBERS, **columns}, target=(-1, 1))
    else:
        names = {f"{k}={v}": (k, v) for k, values in columns.items() for v in values[1:]}
        for name, (k, v) in names.items():
            table[name] = (table[k].astype(str) == v).astype(float)
        table = table[[*NUMBERS, *names]]
        domain = Domain({**NUMBERS, **dict.fromkeys(names, (0, 1))}, target=(-1, 1))
    X = domain.encode(table)
    gram = exact_gram(MemoryRows(domain.encoded, X, y)).astype(np.int64)
    indicators = np.arange(domain.n_encoded) >= len(NUMBERS)
    return Coded(domain.encoded, X, y, gram, indicators & known)


@report.remembered
def plan_of(name: str, levels: str, epsilon: float) -> MomentPlan:
    known, method = PLANNED[name]
    facts = coded(levels, known)
    return method.plan(facts.domain, len(facts.y), epsilon)


def estimate(name: str, levels: str, epsilon: float, noise: int) -> tuple[Coded, FloatArray]:
    """Return the data as a method sees them, and the coefficients of one release."""
    if name in OURS:
        facts = coded(levels, OURS[name])
        return facts, our_coefficients(facts.X, facts.y, facts.domain, epsilon, noise)
    known, method = PLANNED[name]
    facts, rng = coded(levels, known), np.random.default_rng(noise)
    return facts, method.coefficients(plan_of(name, levels, epsilon), facts.gram, rng)


def distances(
    names: list[str], levels: str, measure: str, epsilons: list[float], seed: int, repetition: int
) -> dict[str, FloatArray]:
    """Return the distance of one release for each method and epsilon."""
    noise, found = report.noise_seed(seed, repetition), {}
    for name in names:
        estimates = [estimate(name, levels, epsilon, noise) for epsilon in epsilons]
        found[name] = np.array([facts.distance(theta, measure) for facts, theta in estimates])
    return found


def rows_of(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Return a row for each epsilon: the median distances."""
    levels, epsilons = arguments.indicators, arguments.epsilons
    asked = (arguments.methods, levels, arguments.distance, epsilons, arguments.seed)
    calls = [(*asked, r) for r in range(arguments.repeats)]
    found = report.stacked(report.run(distances, calls, arguments.jobs, levels))
    return [
        {
            "indicators": levels,
            "epsilon": epsilon,
            **{name: float(np.median(values[:, k])) for name, values in found.items()},
        }
        for k, epsilon in enumerate(epsilons)
    ]


def main() -> None:
    parser = report.parser_for(__doc__, repeats=300)
    parser.set_defaults(jobs=1)  # the data are coded once; workers would each do it anew
    parser.add_argument("--indicators", choices=["region", "zipcode"], default="region")
    measures = ["coefficients", "predictions"]
    parser.add_argument("--distance", choices=measures, default=measures[0])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--epsilons", nargs="+", type=float, default=EPSILONS)
    arguments = parser.parse_args()
    facts = coded(arguments.indicators, known=False)
    predictors = facts.domain.n_encoded
    zero = facts.distance(np.zeros(1 + predictors), arguments.distance)
    print(f"{len(facts.y)} sales, {predictors} predictors; distance of zero: {zero:.3f}\n")
    report.publish(
        f"housing_{arguments.indicators}_{arguments.distance}", rows_of(arguments), arguments
    )


if __name__ == "__main__":
    main()
