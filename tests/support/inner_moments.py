"""Inner parts of linear regression from noisy moments, and of scaling that tests look at."""

# ruff: noqa: F401
from skdp.linear_model._moments import moments as moments_module
from skdp.linear_model._moments import rules as rules_module
from skdp.linear_model._moments.moments import EpsilonShares, MomentPlan, ScaledMoments, _gaussian
from skdp.linear_model._moments.postprocess import posterior
from skdp.linear_model._moments.rules import NAMES, plan_moments
from skdp.linear_model._moments.theorem import (
    FirstChange,
    cross_change,
    greatest_square,
    moment_ball,
)
from skdp.linear_model._standardize import stage as scaler_module
from skdp.linear_model._standardize import stage as stage_module
from skdp.linear_model._standardize.stage import (
    CLIPPING,
    DESCENT,
    RowScaler,
    Scaler,
    independent,
    sums_deviation,
    sums_noise,
)
from skdp.linear_model._standardize.theorem import ColumnSums, sizes_of
