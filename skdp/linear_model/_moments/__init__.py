"""The release of moments: plans, releases, and regressions on noisy moments."""
