"""Confidence intervals beside the published methods, on the settings of their publications.

Coverage is the mean over the slopes, "least" that of the slope covered least; lengths are medians
over runs and slopes of intervals of 95 %. An unbounded interval covers, and is "unusable". The
methods are those of `interval_peers`; "mended" says that the published noise was changed, there.

The privacy of ours is one of

- "nominal": what the publication claims, or, from mu-GDP, its epsilon at delta = DELTA. With pure
  noise of this epsilon, ours is then not mu-GDP: this favours ours;
- "strict": the pure epsilon that implies the Gaussian-DP of the peer's noise, as the publication
  counts it. Pure DP of this epsilon implies more than mu-GDP: this favours the peer;
- "zcdp": the pure epsilon of the same rho;
- "spent": as "strict" (the bootstrap: as "nominal"), by what the published noise really spends.

Needs no data files.

The regressions of BinAgg and of the bootstrap have no intercept. Ours has none if the bounds are
widened to be symmetric, or one and the narrower bounds; both are shown.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass, replace
from typing import Any
from zlib import crc32

import numpy as np
from numpy.random import Generator
from scipy.optimize import brentq
from scipy.stats import t

from examples.benchmarks.intervals import interval_peers
from examples.benchmarks.intervals.inference import SHARE, inferred
from examples.benchmarks.intervals.interval_peers import LEVEL, Bounds
from examples.benchmarks.shared import report
from examples.benchmarks.shared.report import FloatArray
from skdp import Domain, DPLinearRegression
from skdp.privacy.conversions import gaussian_epsilon, pure_of_mu, rho_of_mu, rho_of_pure

# Of the epsilon that mu-GDP implies.
DELTA = 1e-6
OURS, EXACT = "skdp", "least squares"


@dataclass(frozen=True)
class Setting:
    """A published simulation: sizes, bounds and the privacy that the publication claims.

    ``epsilon`` is mu for BinAgg, and ``delta`` is 0 for it and for the bootstrap.
    """

    peer: str
    n: int
    p: int
    bounds: Bounds
    epsilon: float
    delta: float = 0.0

    @property
    def has_intercept(self) -> bool:
        """Whether the publication fits one."""
        return self.peer == "nss"

    @property
    def neighbors(self) -> str:
        """The publication's neighbouring relation."""
        return "replace_one" if self.peer == "bootstrap" else "add_remove"

    def slopes(self) -> FloatArray:
        """Return the true slopes; those of BinAgg are drawn once."""
        if self.peer == "binagg":
            return np.random.default_rng(42).uniform(1, 2, self.p)
        return np.array([1.0, 2.0]) if self.peer == "nss" else np.full(self.p, 10.0)

    def draw(self, rng: Generator) -> tuple[FloatArray, FloatArray]:
        """Return rows and targets, before they are clipped."""
        shape = (self.n, self.p)
        if self.peer == "binagg":
            X, errors = rng.uniform(0, 1, shape), rng.standard_normal(self.n)
        elif self.peer == "nss":
            X, errors = rng.standard_normal(shape), rng.standard_normal(self.n)
        else:
            X, errors = rng.uniform(-5, 5, shape), rng.uniform(-10, 10, self.n)
        y = X @ self.slopes() + errors
        # The code of the bootstrap drops what is beyond the target's bounds.
        inside = abs(y) <= self.bounds.y[1] if self.peer == "bootstrap" else np.full(self.n, True)
        return X[inside], y[inside]

    def peer_intervals(self, X: FloatArray, y: FloatArray, rng: Generator, mended: bool) -> Any:
        """Return the intervals of the published method."""
        method = getattr(interval_peers, self.peer)
        claimed = [self.epsilon, self.delta][: 1 + (self.peer == "nss")]
        return method(X, y, self.bounds, *claimed, rng, mended=mended)

    def privacies(self) -> dict[str, tuple[float, float]]:
        """Return the epsilons and deltas with which ours is compared."""
        if self.peer == "bootstrap":
            return {"nominal": (self.epsilon, 0.0), "spent": (9 * self.epsilon, 0.0)}
        if self.peer == "nss":
            mu = interval_peers.nss_mu(self.epsilon, self.delta)
            return {"nominal": (self.epsilon, self.delta), **_pure(mu)}
        nominal = (gaussian_epsilon(self.epsilon, DELTA), DELTA)
        spent = pure_of_mu(interval_peers.binagg_mu(self.epsilon, self.p))
        return {"nominal": nominal, "spent": (spent, 0.0), **_pure(self.epsilon)}


def _pure(mu: float) -> dict[str, tuple[float, float]]:
    """Return the pure epsilons that imply no more than mu's rho, and than mu itself."""
    same_rho = brentq(lambda e: rho_of_pure(e) - rho_of_mu(mu), 1e-9, 100 * (1 + mu))
    return {"zcdp": (same_rho * (1 - 1e-9), 0.0), "strict": (pure_of_mu(mu), 0.0)}


UNIT = Bounds((0, 1), (0, 7))
NORMAL = Bounds((-4, 4), (-15, 15))
NARROW = Bounds((-3, 3), (-10, 10))
WIDE = Bounds((-5, 5), (-150, 150))
SETTINGS = {
    # Table 1, and the designs of Figures 1 and 2 of BinAgg; mu = 1.
    "binagg": Setting("binagg", 1000, 5, UNIT, 1.0),
    "binagg n=4000": Setting("binagg", 4000, 5, UNIT, 1.0),
    "binagg d=1": Setting("binagg", 80, 1, Bounds((0, 1), (0, 2)), 1.0),
    "binagg d=10": Setting("binagg", 7500, 10, Bounds((0, 1), (0, 15)), 1.0),
    "binagg loose": Setting("binagg", 1000, 5, replace(UNIT, x=(-1, 2)), 1.0),
    "binagg very loose": Setting("binagg", 1000, 5, replace(UNIT, x=(-3, 4)), 1.0),
    # Section 5.2 (delta = 1e-5), the grid of Section 5.3, and the sizes of Section 7.2.
    **{f"nss eps={e:g}": Setting("nss", 1000, 2, NORMAL, e, 1e-5) for e in (1, 2, 5, 10, 20)},
    "nss n=10000": Setting("nss", 10_000, 2, NORMAL, 1.0, 1e-5),
    "nss n=10000 eps=10": Setting("nss", 10_000, 2, NORMAL, 10.0, 1e-5),
    "nss n=100000": Setting("nss", 100_000, 2, NARROW, 1.0, 1e-5),
    # The defaults of the code of the bootstrap, and its sizes.
    "bootstrap n=100": Setting("bootstrap", 100, 4, WIDE, 5.0),
    "bootstrap n=1000": Setting("bootstrap", 1000, 4, WIDE, 5.0),
    "bootstrap n=10000": Setting("bootstrap", 10_000, 4, WIDE, 5.0),
}


def ours(
    setting: Setting,
    X: FloatArray,
    y: FloatArray,
    privacy: tuple[float, float],
    seed: int,
    intercept: bool = True,
) -> FloatArray:
    """Return our intervals of the slopes; without an intercept the bounds are made symmetric."""
    (low, high), target = setting.bounds.x, setting.bounds.y
    if not intercept:
        x_largest, y_largest = setting.bounds.largest
        low, high, target = -x_largest, x_largest, (-y_largest, y_largest)
    model = DPLinearRegression(
        epsilon=privacy[0],
        delta=privacy[1],
        domain=Domain.box([low] * setting.p, [high] * setting.p, target=target),
        neighbors=setting.neighbors,
        n_public=None if setting.neighbors == "replace_one" else setting.n,
        fit_intercept=intercept,
    )
    return inferred(model, SHARE, seed, X, y)[0].conf_int(level=LEVEL)[-setting.p :]


def exact(setting: Setting, X: FloatArray, y: FloatArray) -> FloatArray:
    """Return the intervals of least squares without privacy, of the clipped table."""
    X, y = setting.bounds.clip(X, y)
    rows = np.column_stack([np.ones(len(X)), X]) if setting.has_intercept else X
    inverse, free = np.linalg.inv(rows.T @ rows), len(rows) - rows.shape[1]
    slopes = inverse @ (rows.T @ y)
    variance = ((y - rows @ slopes) ** 2).sum() / free * np.diag(inverse)
    quantile = t.isf((1 - LEVEL) / 2, free)
    return interval_peers.around(slopes, np.sqrt(variance), quantile)[-setting.p :]


def methods_of(setting: Setting) -> list[tuple[str, str, tuple[float, float]]]:
    """Return the rows of the table: the method, the kind of privacy, epsilon and delta."""
    claimed = (setting.epsilon, setting.delta)
    kinds = [(setting.peer, "claimed", claimed), (f"{setting.peer}, mended", "claimed", claimed)]
    for name in [OURS] if setting.has_intercept else [OURS, f"{OURS}, no intercept"]:
        kinds += [(name, kind, privacy) for kind, privacy in setting.privacies().items()]
    return [(EXACT, "none", (math.inf, 0.0)), *kinds]


def repetition(name: str, seed: int, r: int) -> dict[str, FloatArray]:
    """Return hits and lengths of one table, of shape (n_methods, p)."""
    setting = SETTINGS[name]
    rng = np.random.default_rng([seed, r, crc32(name.encode())])
    X, y = setting.draw(rng)
    found = []
    for method, _, privacy in methods_of(setting):
        if method == EXACT:
            found.append(exact(setting, X, y))
        elif method.startswith(OURS):
            seed_of_noise = report.noise_seed(seed, r)
            found.append(ours(setting, X, y, privacy, seed_of_noise, method == OURS))
        else:
            found.append(setting.peer_intervals(X, y, rng, method.endswith("mended")))
    low, high = np.moveaxis(np.array(found), -1, 0)
    truth = setting.slopes()
    return {"covered": (low <= truth) & (truth <= high), "length": high - low}


def rows_of(name: str, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the figures of a setting, one row for each method."""
    setting = SETTINGS[name]
    calls = [(name, arguments.seed, r) for r in range(arguments.repeats)]
    found = report.stacked(report.run(repetition, calls, arguments.jobs, name))
    rows = []
    for place, (method, kind, (epsilon, delta)) in enumerate(methods_of(setting)):
        covered, length = found["covered"][:, place], found["length"][:, place]
        unit = "mu" if setting.peer == "binagg" and kind == "claimed" else "epsilon"
        rows.append(
            {
                "setting": name,
                "n": setting.n,
                "p": setting.p,
                "method": method,
                "privacy": kind if kind == "none" else f"{kind}: {unit} {epsilon:.3g}, {delta:g}",
                "coverage": float(covered.mean()),
                "least": float(covered.mean(axis=0).min()),
                "length": float(np.median(length)),
                "unusable": float(1 - np.isfinite(length).mean()),
            }
        )
    return rows


def page_row(name: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return length and coverage of a setting's published, mended and nominal intervals.

    A length is None if more than half of the intervals are unbounded.
    """
    peer, facts = SETTINGS[name].peer, {"setting": name}
    for column, method, kind in (
        ("published", peer, "claimed"),
        ("corrected", f"{peer}, mended", "claimed"),
        ("ours", OURS, "nominal"),
    ):
        (own,) = [
            row
            for row in rows
            if (row["setting"], row["method"]) == (name, method) and row["privacy"].startswith(kind)
        ]
        length = own["length"] if math.isfinite(own["length"]) else None
        facts |= {column: length, f"coverage, {column}": own["coverage"]}
    return facts


def main() -> None:
    parser = report.parser_for(__doc__, repeats=200)
    parser.add_argument("--settings", nargs="+", choices=list(SETTINGS), default=list(SETTINGS))
    arguments = parser.parse_args()
    rows = [row for name in arguments.settings for row in rows_of(name, arguments)]
    report.publish("inference_peers", rows, arguments)
    short = [page_row(name, rows) for name in arguments.settings]
    report.publish("inference_peers_page", short, arguments)


if __name__ == "__main__":
    main()
