"""Two orders of norm balls for noise, and what "optimal" does not mean.

For T(X) = (sum x, sum 2 x^2), x in [-1, 1], the hull of all differences that one record can make
lies inside every other ball, has the least volume and gives the least noise. The order of the plain
balls by volume differs from their order by squared error. In the second part the hull has a greater
loss, for every loss shown, than a ball that contains it.

What it does not show: a ball that is best for every loss. There is none: "optimal" refers to
concentration sets, volume and conditional variance (docs/mathematics/comparing_norm_balls.md).

    python compare_norm_balls.py --out pictures
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike
from scipy.integrate import quad

from skdp.geometry import LpBall, NormBall
from skdp.geometry.comparison import compare
from skdp.geometry.containment import contains
from skdp.trusted.ball import FloatArray, as_points


@dataclass(frozen=True)
class CurvedBall:
    """The hull of (x - y, 2 x^2 - 2 y^2) over x, y in [-1, 1].

    With a = |u_1| <= 2 it is |u_2| <= 2 for a <= 1 and |u_2| <= 2 - 2 (a - 1)^2 beyond. All that
    an own ball needs is dim, exact, gauge and sample; the rest lets it be compared exactly.
    """

    dim: ClassVar[int] = 2
    exact: ClassVar[bool] = True

    def gauge(self, v: ArrayLike) -> FloatArray:
        """Return the gauge: |v_2| / 2, or t with v / t on the parabola u_2 = 4 a - 2 a^2."""
        a, b = np.abs(np.moveaxis(as_points(v, 2), -1, 0))
        safe = np.where(a > 0, a, 1.0)
        return np.asarray(np.where(2 * a > b, 2 * a / (4 - np.minimum(b / safe, 2.0)), b / 2))

    def sample(self, n: int, rng: Generator) -> FloatArray:
        """Return n uniform draws: in the middle, 3/5 of the area, or in one of the caps."""
        u = rng.uniform(-1, 1, (n, 2))
        cap = rng.random(n) < 0.4
        beyond = np.abs(2 * rng.beta(2, 2, n) - 1)  # density proportional to 1 - s^2
        u[:, 1] *= np.where(cap, 2 - 2 * beyond**2, 2)
        u[cap, 0] = np.copysign(1 + beyond, u[:, 0])[cap]
        return u

    def log_volume(self) -> float:
        """Return log(40 / 3)."""
        return math.log(40 / 3)

    def support(self, w: ArrayLike) -> FloatArray:
        """Return the greatest <w, u>: on the parabola, or its ends (1, 2) and (2, 0)."""
        p, q = np.abs(np.moveaxis(as_points(w, 2, "w"), -1, 0))
        safe = np.where(q > 0, q, 1.0)
        curved = p + 2 * q + p * np.minimum(p / safe, 4.0) / 8
        return np.asarray(np.where(p < 4 * q, curved, 2 * p))

    def bounding_box(self) -> FloatArray:
        """Return the half-widths."""
        return np.full(2, 2.0)

    def covariance(self) -> FloatArray:
        """Return the covariance of the uniform law: means of u_1^2 and u_2^2."""
        return np.diag([49 / 50, 204 / 175])


PLAIN: dict[str, NormBall] = {
    "l1": LpBall(2, p=1),
    "l2": LpBall(2, p=2),
    "linf": LpBall(2, p=math.inf),
}
HULL: dict[str, NormBall] = {"hull": CurvedBall()}
BOX = LpBall(2, p=math.inf, radius=2.0)
# The hull of what one record can change, and a ball that holds it; both have sensitivity 1.
RECTANGLE = LpBall(2, p=math.inf, weights=(1 / 100, 1.0))
DIAMOND = LpBall(2, p=1, weights=(1 / 110, 1 / 11))


def mean_norm(ball: NormBall, p: float) -> float:
    """Return E |V|_p for V in the plane with density proportional to exp(-|v|_ball).

    In polar coordinates the radius integrates to Gamma(3) |e|^-3 over Gamma(2) |e|^-2. The
    directions are taken after stretching the ball to length 1 on both axes.
    """
    lengths, norm = 1 / ball.gauge(np.eye(2)), LpBall(2, p=p)

    def moment(power: int, t: float) -> float:
        e = lengths * np.array([math.cos(t), math.sin(t)])
        return float(norm.gauge(e) ** power / ball.gauge(e) ** (2 + power))

    def integral(power: int) -> float:
        corner = [math.pi / 4]
        return quad(lambda t: moment(power, t), 0, math.pi / 2, points=corner, epsabs=0)[0]

    return 2 * integral(1) / integral(0)


def differences(n: int = 200) -> FloatArray:
    """Return T(x) - T(y) for x and y on a grid, (n * n, 2)."""
    x, y = np.meshgrid(np.linspace(-1, 1, n), np.linspace(-1, 1, n))
    return np.column_stack([(x - y).ravel(), (2 * x**2 - 2 * y**2).ravel()])


def show_example() -> None:
    """Print the orders for (sum x, sum 2 x^2), with exact and with approximate sensitivities."""
    print("T(X) = (sum x, sum 2 x^2) for x in [-1, 1]: exact sensitivities\n")
    print(compare(PLAIN | HULL, sensitivity=CurvedBall()))
    print("\nThe same, each sensitivity bounded coordinate by coordinate\n")
    print(compare(PLAIN, sensitivity=BOX))


def show_paradox() -> None:
    """Print how the diamond beats the rectangle that lies inside it."""
    table = compare({"K, rectangle": RECTANGLE, "H, diamond": DIAMOND})
    print("\nK = [-100, 100] x [-1, 1] inside H = {|x| / 110 + |y| / 11 <= 1}\n")
    print(table)
    print(f"K is inside H: {contains(DIAMOND, RECTANGLE)}\n")
    head = ("", "E|V|_inf", "E|V|_2", "E|V|_1", "Var V_1", "Var V_2", "Var V_1 | direction e_1")
    print("  ".join(f"{name:>10}" for name in head))
    for name, ball in {"K": RECTANGLE, "H": DIAMOND}.items():
        numbers = [mean_norm(ball, p) for p in (math.inf, 2, 1)]
        numbers += [*(12 * ball.variance()), float(6 / ball.gauge([1, 0]) ** 2)]
        print("  ".join([f"{name:>10}", *(f"{x:10.2f}" for x in numbers)]))


def save_pictures(folder: Path) -> None:
    """Save two pictures into a folder."""
    import matplotlib.pyplot as plt

    from skdp.inspection import NormBallDisplay

    folder.mkdir(parents=True, exist_ok=True)
    figure, axes = plt.subplots(
        1, 2, figsize=(11, 4), sharex=True, sharey=True, layout="constrained"
    )
    draw = partial(NormBallDisplay.from_balls, sensitivity_space=differences())
    draw(PLAIN | HULL, sensitivity=CurvedBall(), ax=axes[0])
    draw(PLAIN, sensitivity=BOX, ax=axes[1])
    axes[0].set_title("exact sensitivities")
    axes[1].set(title="bounded coordinate by coordinate", ylabel="")
    figure.savefig(folder / "sensitivity_space.png", dpi=150)
    shown = NormBallDisplay.from_balls(
        {"H, diamond": DIAMOND, "K, rectangle": RECTANGLE},
        sensitivity_space=RECTANGLE,
        aspect="auto",
    )
    shown.ax_.set_title("K lies inside H, and loses to it")
    plt.savefig(folder / "paradox.png", dpi=150)
    plt.close("all")


def main() -> None:
    """Print the tables; save the pictures if a folder is named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="folder for the pictures")
    out = parser.parse_args().out
    show_example()
    show_paradox()
    if out:
        save_pictures(out)


if __name__ == "__main__":
    main()
