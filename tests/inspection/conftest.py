"""Pictures are drawn without a screen, and closed after each test."""

import os
import sys
from collections.abc import Iterator

import pytest

os.environ["MPLBACKEND"] = "Agg"


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
