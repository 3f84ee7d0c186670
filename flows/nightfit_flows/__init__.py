"""Prefect flows. The only package that imports prefect, and importing it has no side effect: see `settings.prepare`."""
