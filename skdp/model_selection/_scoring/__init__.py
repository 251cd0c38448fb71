"""Scores of models on held-out records, and their sensitivity to one record."""

from skdp.model_selection._scoring.names import as_score
from skdp.model_selection._scoring.records import RecordScore
from skdp.model_selection._scoring.score import UNITS, Score

__all__ = ["UNITS", "RecordScore", "Score", "as_score"]
