"""What no fit needs is not imported by a fit."""

import subprocess
import sys

import pytest

LEAVES = (
    *("skdp.privacy.tradeoff", "skdp.noise.canonical"),
    *("skdp.geometry.comparison", "skdp.geometry.containment"),
)
FIT = """
import sys
import numpy as np
import skdp
X, y = np.tile([[0.5, -0.5], [-0.5, 0.5]], (50, 1)), np.tile([0, 1], 50)
model = skdp.{model}
model.fit(X, y)
print(model.guarantee_)
print("imported:", *[name for name in sys.modules if name.startswith({leaves!r})])
"""
UNIT = "domain=skdp.Domain.unit_box(2{target}), epsilon=1.0, delta=1e-6"
MODELS = {
    "DPLogisticRegression": f"classes=[0, 1], {UNIT.format(target='')}",
    "DPLinearRegression": UNIT.format(target=", target=(0, 1)"),
    "DPCoordinateDescentClassifier": f"classes=[0, 1], {UNIT.format(target='')}",
}


def imported_by(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split("imported:")[1].split()


@pytest.mark.parametrize("name", MODELS)
def test_a_fit_imports_no_leaf(name):
    """Neither trade-off functions, nor canonical noise, nor the orders on norm balls."""
    code = FIT.format(model=f"{name}({MODELS[name]})", leaves=LEAVES)
    assert imported_by(code) == []
