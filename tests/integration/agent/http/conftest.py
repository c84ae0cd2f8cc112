"""A gateway over HTTP, before a queue in memory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.helpers.memory_gateway import HttpGateway, gateway_of
from tests.helpers.memory_queue import MemoryQueue
from tests.helpers.threaded_agent import queue_of


@pytest.fixture
def queue() -> MemoryQueue:
    return queue_of(10)


@pytest.fixture
def gateway(queue: MemoryQueue) -> Iterator[HttpGateway]:
    with gateway_of(queue) as gateway:
        yield gateway
