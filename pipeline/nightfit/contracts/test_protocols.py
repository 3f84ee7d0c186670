"""Every member has what its protocol declares, with the declared type; nothing is left to a default."""

import inspect
import types
import typing
from typing import Any, ClassVar

import pytest

from nightfit.methods.loop import gradient_estimators, solvers
from nightfit.methods.loop.declared import check_members, declared_members
from nightfit.methods.loop.gradient_estimators import GradientEstimator
from nightfit.methods.loop.solvers import Solver
from nightfit.plugins import members
from nightfit.privacy.local import randomisers
from nightfit.privacy.local.randomisers import Sampler
from nightfit.problem import links, losses, penalties
from nightfit.problem.links import Link
from nightfit.problem.losses import Loss
from nightfit.problem.penalties import Penalty
from nightfit.queries import boundings
from nightfit.queries.boundings import Bounding

PROTOCOLS: tuple[tuple[types.ModuleType, type], ...] = (
    (gradient_estimators, GradientEstimator),
    (solvers, Solver),
    (penalties, Penalty),
    (losses, Loss),
    (links, Link),
    (boundings, Bounding),
    (randomisers, Sampler),
)
MEMBERS = [
    pytest.param(protocol, example, id=f"{protocol.__name__}-{example!r}")
    for package, protocol in PROTOCOLS
    for examples in members(package).values()
    for example in examples
]


def fits(value: Any, hint: Any) -> bool:
    """Whether a value has a declared type: True is no number, a whole number may stand for a float."""
    if typing.get_origin(hint) is ClassVar:
        return fits(value, typing.get_args(hint)[0])
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        return any(fits(value, part) for part in typing.get_args(hint))
    if hint is type(None):
        return value is None
    if hint in (int, float):
        return type(value) is int or (hint is float and isinstance(value, float))
    if inspect.isclass(hint) and getattr(hint, "_is_protocol", False):
        return all(hasattr(value, name) for name in declared_members(hint))
    return isinstance(value, hint)


@pytest.mark.parametrize(("protocol", "example"), MEMBERS)
def test_a_member_has_everything_that_its_protocol_declares(protocol: type, example: Any) -> None:
    check_members(type(example), protocol)
    for name in declared_members(protocol):
        declared = vars(protocol).get(name)
        if inspect.isfunction(declared):
            own = inspect.signature(getattr(type(example), name))
            assert list(own.parameters) == list(inspect.signature(declared).parameters), name
            continue
        if isinstance(declared, property):
            assert fits(getattr(example, name), typing.get_type_hints(declared.fget)["return"]), name
        else:
            assert fits(getattr(type(example), name), typing.get_type_hints(protocol)[name]), name


@pytest.mark.parametrize(("protocol", "example"), [param for param in MEMBERS if param.values[0] is GradientEstimator])
def test_an_estimator_writes_in_its_own_body_whether_it_is_private(protocol: type, example: Any) -> None:
    check_members(type(example), protocol, own=("private",))
