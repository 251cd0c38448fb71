"""The release of moments, and regressions on noisy moments."""
