"""How a release predicts: by the link that it names, or by the one that its loss always had."""

import pytest

from nightfit.plugins import member, members
from nightfit.problem import links, losses
from nightfit.problem.losses import Loss
from nightfit.release import Release


def release(**content: object) -> Release:
    return Release(content=content)


@pytest.mark.parametrize("loss", [pytest.param(examples[0], id=name) for name, examples in members(losses).items()])
def test_a_release_of_our_own_losses_needs_no_link_in_it(loss: Loss) -> None:
    """Those made before links were stored have none, and are read for ever."""
    assert release(plan={"loss": {"kind": loss.name}}).link == loss.link


@pytest.mark.parametrize("name", list(members(links)))
def test_a_release_that_names_its_link_does_not_ask_the_loss(name: str) -> None:
    assert type(release(plan={"loss": {"kind": "not installed here"}}, link=name).link) is member(links, name)
