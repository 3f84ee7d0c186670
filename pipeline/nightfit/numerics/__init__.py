"""Exact arithmetic, dot products, compiled loops, keyed pseudo-randomness and a stream cipher. Knows nothing of privacy. Imports types."""
