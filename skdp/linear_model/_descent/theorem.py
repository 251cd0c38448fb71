"""Trusted. What one record can change in the sums of a coordinate descent.

Statements and proofs: ``docs/proofs/coordinate_descent.md``; joint models: Theorem 8.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from skdp.linear_model._shared.gram import sizes_of
from skdp.noise.independent import Releases
from skdp.noise.laws import Gaussian
from skdp.trusted.arrays import FloatArray
from skdp.trusted.certify import NoisySum, PrivateChoice, Release
from skdp.trusted.statement import NotPrivate

if TYPE_CHECKING:
    from skdp.linear_model._descent.advice import DescentPlan
    from skdp.linear_model._descent.gradients import SoftmaxSlope

# docs/proofs/lattice_release.md, "Other releases".
CHOICE_COST = 2.0**-40
# Standard deviations of a number that are scaled to 1. Records beyond have smaller weights.
RADIUS = 3.0


@dataclass(frozen=True, eq=False)
class RowBound:
    """A public bound on the length of scaled rows, fixed before the scaling stage.

    The noise of a block is divided by its factor a, the ``precision``, (blocks,). Records are
    weighted such that sum_g |a_g z_g|^power <= bound, with scaled rows z. Without a bound each
    block spends its own budget. The power is 2 for Gaussian noise, whose squared shifts add up, and
    1 for delta = 0, whose shifts add up. After a scaling stage ``radius`` standard deviations of a
    number are scaled to 1.
    """

    precision: FloatArray
    bound: float | None = None
    radius: float = RADIUS
    power: int = 2


def gradient_size(moved: float, joint: SoftmaxSlope | None, rows: RowBound) -> float:
    """Return the size of the change of the gradients of a block, or of a pass for bounded rows.

    The contribution of a record to a block, in the block's unit, has a size of at most 1. If rows
    are bounded, those to all blocks together have the length bound^(1 / power) in the l_power norm,
    in units of the noise. In the l1 norm one change of that size majorises all of them, and for
    Gaussian noise only the length counts.
    """
    size = moved * (joint.size if joint else 1.0)
    return size if rows.bound is None else size * float(rows.bound) ** (1 / rows.power)


def releases_of(plan: DescentPlan) -> tuple[Release, ...]:
    """Return the scaling stage, the gradients of all passes, and the choices."""
    task, stage, page = plan.task, plan.stage, "coordinate_descent.md"
    is_gaussian, releases = type(plan.noise.law) is Gaussian, []
    if stage is not None and stage.norm is not None:
        change = stage.sums.change(task.neighbors)
        releases.append(NoisySum("scaling", change, stage.norm, f"{page}, Theorem 2"))
    elif stage is not None:
        # Independent noise of the law of a step, times the ratio and the unit of a sum.
        stage.sums.require(task.neighbors)
        sizes = sizes_of(stage.sums, plan.ratio * stage.units, is_gaussian, stage.in_ball)
        sums = Releases(sizes, task.neighbors)
        releases.append(NoisySum("scaling", sums, plan.noise, f"{page}, Theorem 2"))
    is_length = plan.rows.bound is not None and plan.rows.power == 2
    is_length |= plan.joint is not None and plan.joint.power == 2
    if is_length and not is_gaussian:
        raise NotPrivate("gradients: only Gaussian noise depends on the l2 length of a change")
    count = task.n_models * plan.passes
    if plan.rows.bound is None and not plan.choice:
        count *= len(plan.blocks)
    steps = Releases(
        [(gradient_size(task.records_changed, plan.joint, plan.rows), count)], task.neighbors
    )
    theorem = f"{page}, Theorems 1 and 6"
    gradients = NoisySum("gradients", steps, plan.noise, theorem, plan.steps)
    if not plan.choice:
        return *releases, gradients
    width = 2 * task.records_changed / plan.choice + CHOICE_COST
    choices = PrivateChoice("choices", width, plan.steps, f"{page}, Theorem 5")
    return *releases, gradients, choices
