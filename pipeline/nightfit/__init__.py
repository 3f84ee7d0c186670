"""nightfit: nightly private refits of statistical models, out of core. The rooms are listed in docs/architecture.md."""

__version__ = "0.1.0"
