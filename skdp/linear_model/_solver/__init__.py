"""Minimisation of a perturbed objective, with a proven bound on the gradient."""
