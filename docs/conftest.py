"""Tests of the pages."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))

from _quickstart import PAGES, known_noise


@pytest.fixture(autouse=True)
def _noise_of_the_first_pages(request):
    """Repeat the noise where a page shows numbers of a fit; elsewhere it is new each time."""
    if request.node.path.name in PAGES:
        with known_noise():
            yield
    else:
        yield
