"""Inner parts of all estimators that tests look at: a move changes a line here."""

# ruff: noqa: F401
from skdp.linear_model._shared import base as base_module
from skdp.linear_model._shared import gram as gram_module
from skdp.linear_model._shared.design import LISTABLE, Design
from skdp.linear_model._shared.gram import (
    GRAM_BITS,
    NUMBER_BITS,
    SUM_BITS,
    exact_both,
    exact_cross,
    exact_gram,
    exact_statistic,
    exact_sum,
    exact_sums,
    in_sum_units,
    release_exact,
    row_unit,
    whole_rows,
)
from skdp.linear_model._shared.predict import predictors
from skdp.linear_model._shared.task import Records, Task, removed_and_added, spell_levels
