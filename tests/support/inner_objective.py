"""Inner parts of objective perturbation and its solver that tests look at."""

# ruff: noqa: F401
from skdp.linear_model._objective import clipping as clipping_module
from skdp.linear_model._objective import families as families_module
from skdp.linear_model._objective import perturbation as perturbation_module
from skdp.linear_model._objective import profiles as profiles_module
from skdp.linear_model._objective import rules as rules_module
from skdp.linear_model._objective.algorithm import ObjectivePerturbation
from skdp.linear_model._objective.clipping import ClippingBounds, finisher, plan_clipping
from skdp.linear_model._objective.families import (
    Q_GRID,
    GaussianFamily,
    KNormFamily,
    ModelTask,
    cluster,
    rough_leverage,
)
from skdp.linear_model._objective.perturbation import (
    OUTPUT_SHARE,
    Perturbation,
    greatest_leverage,
    leverage_apart,
    leverages_apart,
    shift_share,
    weighted_length,
    weighted_radius,
)
from skdp.linear_model._objective.profiles import (
    JointProfile,
    RecordLoss,
    SoftmaxRecord,
    _worst_cells,
    _worst_removed,
    corners,
    greatest_shift,
    lines_above,
    log_delta_of_line,
    rough_shifts,
)
from skdp.linear_model._objective.rules import choose
from skdp.linear_model._solver import certificate as certificate_module
from skdp.linear_model._solver import problem as problem_module
from skdp.linear_model._solver import solve as solve_module
from skdp.linear_model._solver.certificate import (
    CertifiedGradient,
    attainable_tolerance,
    certified_gradient,
)
from skdp.linear_model._solver.problem import (
    SAMPLE_CELLS,
    CompiledSums,
    Coordinates,
    Curves,
    DesignRows,
    Objective,
    is_compiled,
    row_builder,
    sample_of,
    sums_over,
    weigher,
)
from skdp.linear_model._solver.solve import NotCertified, minimise
