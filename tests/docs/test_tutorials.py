"""What the tutorials have their readers type works as it stands, and prints what they say."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.helpers.tutorial import TUTORIALS, readers_shell

pytestmark = pytest.mark.thorough


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="the page is for Python 3.10 to 3.12")
def test_library_is_docked_on_a_laptop(tmp_path: Path) -> None:
    with readers_shell(tmp_path) as shell:
        assert shell.follow(TUTORIALS / "laptop.md") == 14


def test_program_with_an_executor_is_moved(tmp_path: Path) -> None:
    with readers_shell(tmp_path) as shell:
        assert shell.follow(TUTORIALS / "executors.md") == 5
