"""Inner parts of objective perturbation and its solver that tests look at."""

# ruff: noqa: F401
from skdp.linear_model._objective import advice as advice_module
from skdp.linear_model._objective import certificate as certificate_module
from skdp.linear_model._objective import mean as mean_module
from skdp.linear_model._objective import minimise as minimise_module
from skdp.linear_model._objective import problem as problem_module
from skdp.linear_model._objective import profiles as profiles_module
from skdp.linear_model._objective import solve as solve_module
from skdp.linear_model._objective import theorem as theorem_module
from skdp.linear_model._objective.advice import (
    Q_GRID,
    GaussianFamily,
    KNormFamily,
    ModelTask,
    choose,
    cluster,
    greatest_leverage,
    leverage_apart,
)
from skdp.linear_model._objective.certificate import (
    CertifiedGradient,
    attainable_tolerance,
    certified_gradient,
)
from skdp.linear_model._objective.minimise import NotCertified, minimise
from skdp.linear_model._objective.problem import (
    SAMPLE_CELLS,
    CompiledSums,
    Curves,
    DesignRows,
    Objective,
    constants_of,
    is_compiled,
    predictor,
    row_builder,
    sample_of,
    sums_over,
    terms_of,
    weigher,
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
from skdp.linear_model._objective.solve import (
    ClippingBounds,
    ObjectivePerturbation,
    finisher,
    plan_clipping,
)
from skdp.linear_model._objective.theorem import (
    OUTPUT_SHARE,
    NoisyMinimiser,
    shift_share,
    weighted_length,
    weighted_radius,
)
