"""Inner parts of plans that tests look at: a move changes a line here."""

# ruff: noqa: F401
from skdp.linear_model._inference.outlook import population
