"""`make demo`: from a bare machine to a model served and scaled by the operator, in one terminal."""
