"""Noise for a matrix of moments."""
