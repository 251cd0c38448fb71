"""Inner parts of linear regression from noisy moments, and of scaling that tests look at."""

# ruff: noqa: F401
from skdp.linear_model import linear as linear_module
from skdp.linear_model._moments import advice as moments_module
from skdp.linear_model._moments import solve as solve_module
from skdp.linear_model._moments.advice import (
    NAMES,
    MomentPlan,
    ScaledMoments,
    _gaussian,
    plan_moments,
)
from skdp.linear_model._moments.solve import posterior, row_scaler
from skdp.linear_model._moments.theorem import (
    FirstChange,
    RowScaler,
    cross_change,
    first_sums,
    greatest_square,
    moment_ball,
)
from skdp.linear_model._shared import scaling as scaling_module
from skdp.linear_model._shared.gram import ColumnSums, sizes_of
from skdp.linear_model._shared.scaling import (
    CLIPPING,
    DESCENT,
    Scaler,
    sums_noise,
)
