"""Trusted. What one record can change in the sums of a coordinate descent.

Statements and proofs: ``docs/proofs/coordinate_descent.md``; joint models: Theorem 8.
"""

from __future__ import annotations

from typing import Any

from skdp.linear_model._descent.gradients import RowBound
from skdp.linear_model._shared.task import Task
from skdp.linear_model._standardize.theorem import sizes_of
from skdp.noise.independent import Releases
from skdp.noise.laws import Gaussian
from skdp.trusted.releases import NoisySum, PrivateChoice, Release
from skdp.trusted.statement import NotPrivate

# docs/proofs/lattice_release.md, "Other releases".
CHOICE_COST = 2.0**-40


def gradient_size(task: Task, rows: RowBound) -> float:
    """Return the size of the change of the gradients of a block, or of a pass for bounded rows.

    The contribution of a record to a block, in the block's unit, has a size of at most 1. If rows
    are bounded, those to all blocks together have the length bound^(1 / power) in the l_power norm,
    in units of the noise. In the l1 norm one change of that size majorises all of them, and for
    Gaussian noise only the length counts.
    """
    joint = getattr(task, "joint", None)
    size = task.moved * (joint.size if joint else 1.0)
    return size if rows.bound is None else size * float(rows.bound) ** (1 / rows.power)


def releases_of(plan: Any) -> tuple[Release, ...]:
    """Return the scaling stage, the gradients of all passes, and the choices of a `DescentPlan`."""
    task, page = plan.task, "coordinate_descent.md"
    found: list[Release] = []
    if (stage := plan.stage) is not None and stage.norm is not None:
        change = stage.sums.change(task.neighbors)
        found.append(NoisySum("scaling", change, stage.norm, f"{page}, Theorem 2"))
    elif stage is not None:
        # Independent noise of the law of a step, times the ratio and the unit of a sum.
        stage.sums.require(task.neighbors)
        gaussian, in_ball = type(plan.noise.law) is Gaussian, stage.numbers_in_ball
        sizes = sizes_of(stage.sums, plan.ratio * stage.planned.units, gaussian, in_ball)
        sums = Releases(sizes, task.neighbors)
        found.append(NoisySum("scaling", sums, plan.noise, f"{page}, Theorem 2"))
    is_length = plan.rows.bound is not None and plan.rows.power == 2
    is_length |= task.joint is not None and task.joint.power == 2
    if is_length and type(plan.noise.law) is not Gaussian:
        raise NotPrivate("gradients: only Gaussian noise depends on the l2 length of a change")
    size, count = gradient_size(task, plan.rows), task.n_models * task.passes
    if plan.rows.bound is None and not plan.choice:
        count *= len(task.blocks)
    steps = Releases([(size, count)], task.neighbors)
    theorem = f"{page}, Theorems 1 and 6"
    found.append(NoisySum("gradients", steps, plan.noise, theorem, plan.steps))
    if plan.choice:
        width = 2 * task.moved / plan.choice + CHOICE_COST
        found.append(PrivateChoice("choices", width, plan.steps, f"{page}, Theorem 4"))
    return tuple(found)
