"""A pilot of a queue, and a batch system that does what the test says."""

from __future__ import annotations

from pathlib import Path

import pytest

from taskq import Client
from tests.helpers.postgres import Postgres
from tests.integration.pilots.support import PilotScene


@pytest.fixture
def scene(queue: Client, postgres: Postgres, tmp_path: Path) -> PilotScene:
    """Give a campaign and a batch system, without a pilot yet."""
    return PilotScene(queue, postgres, str(tmp_path))
