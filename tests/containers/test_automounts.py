"""Containers see what a real autofs mounts when they look, such as the repositories of /cvmfs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskq_agent.binds import of_site
from taskq_agent.protocol import DONE
from tests.containers.conftest import IMAGE
from tests.helpers.paths import ROOT
from tests.helpers.slot_harness import slot_in

pytestmark = [
    pytest.mark.usefixtures("image"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount"),
]


@pytest.fixture
def automounts(tmp_path: Path) -> Iterator[Path]:
    """Give a folder below which all names are mounted when somebody looks."""
    folder = tmp_path / "cvmfs"
    folder.mkdir()
    words = [sys.executable, "-m", "tests.containers.automounter", str(folder)]
    with subprocess.Popen(
        words,
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as automounter:
        assert automounter.stdout is not None
        assert automounter.stdout.readline() == "ready\n"
        try:
            yield folder
        finally:
            automounter.communicate(timeout=60)
    assert automounter.returncode == 0


def test_real_container_sees_what_is_mounted_when_it_looks(
    automounts: Path, tmp_path: Path
) -> None:
    """Also in a container that has run since before. cvmfs-contrib/cvmfs-csi#44."""
    look = f"cat {automounts}/chem.example.org/library; cat {automounts}/late.example.org/library"
    handler = {"kind": "command", "argv": ["sh", "-ec", look], "container": IMAGE}
    with slot_in(tmp_path, binds=(of_site(str(automounts)),)) as slot:
        ended = slot.run(handler)
    assert ended.outcome == DONE, ended.tail
    assert str(ended.tail).count("mounted when somebody looked") == 2
