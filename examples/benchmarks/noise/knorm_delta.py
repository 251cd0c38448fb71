"""How much smaller l_2 K-norm noise is than Gaussian noise at the same (epsilon, delta).

Mean squared errors for differences of Euclidean length 1, their ratio, and how long one
calibration takes. With --check, each scale against an independent integral over radius and
angle: the delta it really has, over the one that was asked for. With --matrices, the variance of
an entry off the diagonal of a matrix of moments, for rows of length at most 1: matrix Laplace
noise, Gaussian noise, and K-norm noise in the Frobenius norm. Then the epsilon of many releases
with matrix Laplace noise together, if one record is replaced: by adding up, by the loss of a
Laplace variable, and by the smaller loss of replaced records. Nothing is random.

    python -m examples.benchmarks.noise.knorm_delta
    python -m examples.benchmarks.noise.knorm_delta --epsilons 0.1 10 --deltas 1e-2 1e-12 --check
    python -m examples.benchmarks.noise.knorm_delta --matrices
"""

from __future__ import annotations

import argparse
import math
import time
from itertools import pairwise, product

import numpy as np
from scipy.integrate import quad
from scipy.special import betainc
from scipy.stats import gamma

from skdp.geometry import LpBall
from skdp.mechanisms import KNorm, KNormNoise, Sensitivity
from skdp.mechanisms.knorm import gaussian_scale, shift_in_round_norm
from skdp.noise.matrix import losses_of_trace
from skdp.privacy import Composition

DIMS = [1, 2, 5, 10, 20, 50, 100, 300, 1000]


def calibrated(dim: int, epsilon: float, delta: float) -> KNormNoise:
    """Return l_2 noise for differences of length 1."""
    return KNorm("l2").calibrate(Sensitivity(LpBall(dim)), epsilon=epsilon, delta=delta)


def milliseconds(dim: int, epsilon: float, delta: float, repeats: int) -> float:
    """Return the least time of one calibration."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        calibrated(dim, epsilon, delta)
        times.append(time.perf_counter() - start)
    return 1e3 * min(times)


def tail(dim: int, shift: float, loss: float) -> float:
    """Return P(|X + v| - |X| > loss), from a Gamma(d) radius and the angle's beta law."""
    first = (shift - loss) / 2
    if dim == 1:
        return 1 - 0.5 * math.exp(-first) if abs(loss) < shift else float(loss < 0)

    def share(root: float) -> float:
        r = first + root**2
        u = (2 * r * loss + loss**2 - shift**2) / (2 * r * shift)
        angle = betainc((dim - 1) / 2, (dim - 1) / 2, min(max((1 - u) / 2, 0.0), 1.0))
        return float(2 * root * angle * math.exp((dim - 1) * math.log(r) - r - math.lgamma(dim)))

    ends = np.linspace(0.0, math.sqrt(gamma(dim).isf(1e-20)), 17)
    parts = [quad(share, a, b, epsabs=0, epsrel=1e-12)[0] for a, b in pairwise(ends)]
    return float(gamma(dim).cdf(first)) + sum(parts)


def true_delta(noise: KNormNoise, epsilon: float) -> float:
    """Return P(L > epsilon) - e^epsilon Q(L > epsilon), the second by the mirror image."""
    shift = 1 / noise.scale
    if epsilon >= shift:
        return 0.0
    mirrored = 1 - tail(noise.dim, shift, -epsilon)
    return tail(noise.dim, shift, epsilon) - math.exp(epsilon) * mirrored


ROWS = [2, 3, 4, 5, 6, 8, 10, 15, 20, 50]


def print_matrices(epsilon: float, delta: float) -> None:
    """Print variances off the diagonal, and the K-norm noise's over the less of the others."""
    print(f"epsilon {epsilon:g}, delta {delta:g}")
    print("rows  neighbours       Laplace   Gaussian     K-norm  K-norm / least other")
    for neighbors, records in (("replace_one", 2), ("add_remove", 1)):
        for rows in ROWS:
            dim = rows * (rows + 1) // 2
            laplace = (rows + 1) / 2 * (records / epsilon) ** 2
            # Differences have a Frobenius norm of at most the root of the number of records.
            gaussian = records * gaussian_scale(epsilon, delta) ** 2 / 2
            knorm = records * (dim + 1) / shift_in_round_norm(dim, epsilon, delta) ** 2 / 2
            found = f"{laplace:10.3f} {gaussian:10.3f} {knorm:10.3f}"
            print(f"{rows:4d}  {neighbors:12} {found} {knorm / min(laplace, gaussian):10.3f}")


def print_composed(epsilon: float, delta: float) -> None:
    """Print the epsilon of many releases together."""
    print("releases      added    Laplace   replaced")
    for count in (10, 30, 100):
        losses = [losses_of_trace(epsilon, records)[0][0] for records in (1, 2)]
        laplace, own = (Composition([(x, count)]).epsilon_at(delta).upper for x in losses)
        print(f"{count:8d} {count * epsilon:10.3f} {laplace:10.3f} {own:10.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dims", nargs="+", type=int, default=DIMS)
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1.0])
    parser.add_argument("--deltas", nargs="+", type=float, default=[1e-6])
    parser.add_argument("--repeats", type=int, default=5, help="calibrations timed")
    parser.add_argument("--check", action="store_true", help="second truth, to some seven digits")
    parser.add_argument("--matrices", action="store_true", help="noises for moments instead")
    asked = parser.parse_args()
    if asked.matrices:
        for epsilon, delta in product(asked.epsilons, asked.deltas):
            print_matrices(epsilon, delta)
            print_composed(epsilon, delta)
        return
    print(
        "epsilon    delta     d  scale/sqrt(d)  ratio to Gaussian  ratio to Laplace's   ms", end=""
    )
    print("  true delta / asked" if asked.check else "")
    for epsilon in asked.epsilons:
        for delta in asked.deltas:
            for dim in asked.dims:
                noise = calibrated(dim, epsilon, delta)
                error = float(noise.covariance()[0, 0])
                gaussian = error / gaussian_scale(epsilon, delta) ** 2
                pure = (noise.scale * epsilon) ** 2
                spent = milliseconds(dim, epsilon, delta, asked.repeats)
                print(
                    f"{epsilon:7g} {delta:8.0e} {dim:5d} {noise.scale / math.sqrt(dim):14.6f} "
                    f"{gaussian:18.4f} {pure:19.4f} {spent:5.1f}",
                    end="",
                )
                print(f" {true_delta(noise, epsilon) / delta:19.7f}" if asked.check else "")


if __name__ == "__main__":
    main()
