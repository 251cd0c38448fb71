"""Gaussian noise of one variance, or shaped to an ellipsoid around the differences."""
