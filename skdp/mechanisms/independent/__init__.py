"""Independent noise in each coordinate, for one release or for many."""
