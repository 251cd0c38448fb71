"""Objective perturbation: calibration, choice of the noise, clipping bounds."""
