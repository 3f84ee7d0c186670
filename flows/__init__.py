"""Prefect flows. The only package that imports prefect."""
