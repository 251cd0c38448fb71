"""Inner parts of inference that tests look at: a move changes a line here."""

# ruff: noqa: F401
from skdp.linear_model._inference import release as release_module
from skdp.linear_model._inference.estimate import NoisyEquations, estimate, narrowed, widened
from skdp.linear_model._inference.plan import InferencePlan, at_bounds, plan_inference
from skdp.linear_model._inference.release import (
    MOST_POWER,
    Influences,
    ScoreRows,
    Scores,
    exact_squares,
    few_bits,
    with_bending,
    with_residuals,
)
from skdp.linear_model._inference.table import Inference, digits
from skdp.linear_model._inference.theorem import longest_row
