"""Objective perturbation: calibration, choice of the noise, problem, solver and certificate."""
