"""Inner parts of the rest of the package that tests look at: a move changes a line here."""

# ruff: noqa: F401
from skdp import __main__ as main_module
from skdp import _compiled as compiled_module
from skdp._codec import ARRAYS, TYPES, decode, encode, from_text, hints_of, to_text, type_named
from skdp._compiled import load_kernels
from skdp._estimators import DOCUMENTATION
from skdp._first_use import check_at_first_use
from skdp._search import last_passing, passing_below_root
from skdp.bounds._counts import OCTAVES, SHARES, CountNoise, LevelCounts, Magnitudes, Steps, counts
from skdp.datasets import declaration
from skdp.model_selection import _score_sums as score_sums
from skdp.model_selection import _selection as selection_module
from skdp.model_selection import _theorem as theorem_module
from skdp.model_selection._candidates import parts, private_step, sizes
from skdp.model_selection._scores import UNITS, _rows, as_score, is_built_in
from skdp.model_selection._theorem import (
    bernoulli_exp,
    exponential_mechanism,
    permute_and_flip,
    uniform_below,
)
from skdp.testing._require import require
from skdp.trusted.arrays import FloatArray, repeated, row_products, wide_rows
from skdp.trusted.checks import (
    check_interval,
    check_positive,
    fail,
    others_in,
    relied_on,
    remembered,
)
from skdp.trusted.randomness import (
    discrete_laplace,
    exponentials,
    gamma,
    gammas,
    gumbels,
    normals,
    uniforms,
    wishart,
)
