"""Hosts that tasks avoid and that refuse campaigns, explored to the last state; and mistakes."""

from __future__ import annotations

import pytest

from tests.helpers.variants import rest_thorough
from tests.protocol.explore import explore
from tests.protocol.hosts.configurations import BRIEF
from tests.protocol.hosts.queue import HostQueue
from tests.protocol.hosts.variants import HOST_VARIANTS, HostVariant
from tests.protocol.hosts.world import HostWorld


@pytest.mark.parametrize("name", rest_thorough(BRIEF, 3))
def test_hosts_are_dealt_with_as_promised_in_every_state(name: str) -> None:
    """Anyone who fails, refuses, goes or comes: no rule is broken, and every task can still end."""
    found = explore(HostWorld(HostQueue(BRIEF[name])))
    assert found.rule is None, found.story()
    assert found.states > 500


@pytest.mark.parametrize("variant", HOST_VARIANTS, ids=lambda value: value.queue.__name__)
def test_protocol_with_a_mistake_about_hosts_is_found_out(variant: HostVariant) -> None:
    """The rules can tell: each mistake breaks the one that it should."""
    found = explore(HostWorld(variant.queue(variant.bounds)))
    assert found.rule == variant.rule, found.story()
