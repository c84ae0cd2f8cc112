"""The lease protocol, explored to the last state; and protocols with a mistake, each found out."""

from __future__ import annotations

import pytest

from tests.helpers.variants import rest_thorough
from tests.protocol.configurations import BRIEF
from tests.protocol.explore import explore
from tests.protocol.queue import Queue
from tests.protocol.variants import VARIANTS, Variant
from tests.protocol.world import World


@pytest.mark.parametrize("name", rest_thorough(BRIEF, 2))
def test_protocol_keeps_its_promises_in_every_state(name: str) -> None:
    """Whatever is lost, late, repeated or dead: no rule is broken, and every task can still end."""
    found = explore(World(Queue(BRIEF[name])))
    assert found.rule is None, found.story()
    assert found.states > 1_000


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda value: value.queue.__name__)
def test_protocol_with_a_mistake_is_found_out(variant: Variant) -> None:
    """The rules can tell: each mistake that is known of other queues breaks the one it should."""
    found = explore(World(variant.queue(variant.bounds)))
    assert found.rule == variant.rule, found.story()
