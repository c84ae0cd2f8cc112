"""Messages say how more is installed from where this installation came from."""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path

import pytest

from taskq.model.errors import ExtraMissing
from taskq_agent.release import how_to_install

WHEEL = "https://example.org/w/taskq_campaigns-0.1.0-py3-none-any.whl"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the folder of a distribution's metadata, which no record of an origin is in yet."""
    folder = tmp_path / "taskq_campaigns-0.1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: taskq-campaigns\n")
    found = metadata.PathDistribution(folder)
    monkeypatch.setattr(metadata, "distribution", lambda _: found)
    return folder / "direct_url.json"


def test_installation_by_name_is_completed_by_name(installed: Path) -> None:
    assert not installed.exists()
    assert how_to_install("s3") == "`pip install 'taskq-campaigns[s3]'`"


@pytest.mark.parametrize(
    ("recorded", "command"),
    [
        (
            {"url": WHEEL, "archive_info": {}},
            f"`pip install 'taskq-campaigns[s3] @ {WHEEL}'`",
        ),
        (
            {"url": "https://example.org/q", "vcs_info": {"vcs": "git", "commit_id": "c0ffee"}},
            "`pip install 'taskq-campaigns[s3] @ git+https://example.org/q@c0ffee'`",
        ),
        (
            {"url": "file:///my%20clone", "dir_info": {}},
            "`pip install '.[s3]'` in the clone of taskq (/my clone)",
        ),
        (
            {"url": "file:///clone", "dir_info": {"editable": True}},
            "`pip install --editable '.[s3]'` in the clone of taskq (/clone)",
        ),
    ],
)
def test_names_that_a_stranger_may_register_are_not_left_to_the_index(
    installed: Path, recorded: object, command: str
) -> None:
    installed.write_text(json.dumps(recorded))
    assert how_to_install("s3") == command
    assert str(ExtraMissing("s3:// needs obstore", "s3")) == f"s3:// needs obstore: {command}"


@pytest.mark.parametrize("damaged", ["", "[]", "{", "null"])
def test_damaged_record_ends_no_command(installed: Path, damaged: str) -> None:
    installed.write_text(damaged)
    assert how_to_install("s3").startswith("`pip install ")
