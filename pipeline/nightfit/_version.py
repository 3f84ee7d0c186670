"""The version. A module of its own, so that lower packages can import it without the public names of `nightfit`."""

__version__ = "0.1.0"
