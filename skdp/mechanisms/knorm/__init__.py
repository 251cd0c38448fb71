"""The K-norm mechanism: noise with the density exp(-|v| / scale) in a norm."""
