"""The tags of flow runs, by which Prefect's pages and automations find them. Imports prefect, lazily."""

import contextlib
from collections.abc import Iterator, Sequence

TAG = "nightfit"


def tags_of(models: Sequence[str]) -> list[str]:
    """One for every run of ours, and one for each model."""
    return [TAG, *(f"model:{name}" for name in models)]


@contextlib.contextmanager
def tagged(models: Sequence[str]) -> Iterator[None]:
    """Flows that are run inside have the tags of these models."""
    from prefect import tags

    with tags(*tags_of(models)):
        yield
