"""Inner parts of inference that tests look at: a move changes a line here."""

# ruff: noqa: F401
from skdp.linear_model._inference import release as release_module
from skdp.linear_model._inference.estimate import NoisyCurvatures, NoisyEquations, NoisyEstimate
from skdp.linear_model._inference.plan import InferencePlan, at_bounds, plan_inference
from skdp.linear_model._inference.release import (
    MOST_POWER,
    Products,
    ScoreRows,
    Scores,
    bending,
    bounded,
    counts_of_sizes,
    deviations_of,
    exact_squares,
    few_bits,
)
from skdp.linear_model._inference.table import digits
from skdp.linear_model._inference.theorem import CELLS, longest_row
from skdp.linear_model._moments.solve import estimate_of, noise_covariance
