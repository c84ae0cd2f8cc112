"""What the manual says of many tasks to one start works as it stands, in an empty home."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.helpers.paths import ROOT
from tests.helpers.tutorial import readers_shell

pytestmark = pytest.mark.thorough


@pytest.mark.skipif(sys.version_info < (3, 11), reason="this Python reads no TOML")
def test_many_tasks_go_to_one_start_as_the_manual_says(tmp_path: Path) -> None:
    with readers_shell(tmp_path) as shell:
        page = ROOT / "docs" / "handlers.md"
        assert shell.follow(page, heading="Many tasks to one start") == 11
