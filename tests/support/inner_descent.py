"""Inner parts of coordinate descent that tests look at: a move changes a line here."""

# ruff: noqa: F401
from skdp.linear_model import coordinate_descent as algorithm_module
from skdp.linear_model._descent import advice as plan_module
from skdp.linear_model._descent import gradients as gradients_module
from skdp.linear_model._descent import solve as solve_module
from skdp.linear_model._descent.advice import (
    BOX_RADIUS,
    independent,
    joint_slope,
    plan_descent,
    stage_sums,
    usual_square,
)
from skdp.linear_model._descent.gradients import (
    SLOPE_BLOCKS,
    Blocks,
    Gradients,
    Moves,
    Scaling,
    SoftmaxSlope,
    clipped_residual,
    keep_scaled,
    logistic_slope,
    residual,
)
from skdp.linear_model._descent.solve import (
    FARTHEST,
    LOGISTIC,
    SQUARED,
    Descent,
    curvatures,
    penalties,
    plain_scaling,
    residual_bound,
    scaling_of,
)
from skdp.linear_model._descent.theorem import RADIUS, RowBound
