"""The measuring commands are imported from the folder that these tests are in."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))
