"""Every member of every extensible package: a name of its own, examples that are frozen, equal after pickling and told by their fields."""

import pickle
import re
from dataclasses import fields
from types import ModuleType
from typing import Any

import pytest

from nightfit.methods.loop import gradient_estimators, solvers
from nightfit.plugins import described, member, members
from nightfit.privacy.local import randomisers
from nightfit.problem import links, losses, penalties
from nightfit.queries import boundings

PACKAGES: tuple[ModuleType, ...] = (losses, penalties, links, gradient_estimators, solvers, boundings, randomisers)
MEMBERS = [
    pytest.param(package, name, example, id=f"{package.__name__.rpartition('.')[2]}-{example!r}")
    for package in PACKAGES
    for name, examples in members(package).items()
    for example in examples
]


@pytest.mark.parametrize(("package", "name", "example"), MEMBERS)
def test_a_member_is_found_by_its_own_name(package: ModuleType, name: str, example: Any) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9_]*", name)
    assert type(example).name == name
    assert member(package, name) is type(example)


@pytest.mark.parametrize(("package", "name", "example"), MEMBERS)
def test_a_member_is_frozen_and_survives_pickling(package: ModuleType, name: str, example: Any) -> None:
    assert type(example).__dataclass_params__.frozen
    assert repr(pickle.loads(pickle.dumps(example))) == repr(example)


@pytest.mark.parametrize(("package", "name", "example"), MEMBERS)
def test_a_member_is_told_by_its_name_and_its_fields(package: ModuleType, name: str, example: Any) -> None:
    told = described(example)
    assert told.pop("kind") == name
    assert list(told) == [field.name for field in fields(example)]
