"""Noise of a smaller scale, which a checker has to refuse."""

from dataclasses import replace

import numpy as np


def weaker(noise, factor=0.98):
    """Return the noise with its scale times a factor."""
    for name, power in (("scale", 1), ("factor", 1), ("deviation", 1), ("precision", -1)):
        if hasattr(noise, name):
            return replace(noise, **{name: np.multiply(getattr(noise, name), factor**power)[()]})
    return replace(noise, law=noise.law.scaled(factor))
