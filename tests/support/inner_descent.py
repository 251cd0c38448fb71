"""Inner parts of coordinate descent that tests look at: a move changes a line here."""

# ruff: noqa: F401
from skdp.linear_model._descent import algorithm as algorithm_module
from skdp.linear_model._descent import gradients as gradients_module
from skdp.linear_model._descent import plan as plan_module
from skdp.linear_model._descent.algorithm import FARTHEST, Descent
from skdp.linear_model._descent.gradients import (
    RADIUS,
    SLOPE_BLOCKS,
    Blocks,
    DescentStage,
    Gradients,
    Moves,
    RowBound,
    Scaling,
    SoftmaxSlope,
    clipped_residual,
    keep_scaled,
    logistic_slope,
    plain_scaling,
    residual,
    usual_square,
)
from skdp.linear_model._descent.plan import (
    BOX_RADIUS,
    LOGISTIC,
    SQUARED,
    DescentPlan,
    DescentTask,
    blocks_apart,
    curvatures,
    joint_slope,
    may_be_joint,
    penalties,
    plan_descent,
    residual_bound,
    roughness,
    row_lengths,
    scaling_of,
)
