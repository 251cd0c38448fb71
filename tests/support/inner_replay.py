"""Inner parts in which faults are planted for replay: a move changes a line here."""

# ruff: noqa: F401
from skdp.linear_model._descent.advice import DescentPlan
from skdp.linear_model._descent.gradients import ScaledRows
from skdp.linear_model._descent.solve import Descent
from skdp.linear_model._inference.plan import InferencePlan
from skdp.linear_model._inference.release import InferenceRelease
from skdp.linear_model._moments import advice as moments_module
from skdp.linear_model._objective import theorem as theorem_module
from skdp.linear_model._objective.advice import KNormFamily
from skdp.linear_model._objective.theorem import NoisyMinimiser
from skdp.linear_model._shared import base as base_module
from skdp.linear_model._shared import gram as gram_module
from skdp.linear_model._shared.gram import exact_moments
from skdp.trusted.randomness import publish
