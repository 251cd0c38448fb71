"""A strong distinguisher that reads every public attribute."""
