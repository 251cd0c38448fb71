"""Standard errors and intervals of coefficients."""
