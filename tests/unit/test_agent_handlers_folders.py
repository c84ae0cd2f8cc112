"""Folders of tasks: empty, the agent's own, and replaced if they become unusable."""

import os
import stat
from pathlib import Path

import pytest

from taskq_agent.protocol import FAILED, RELEASED
from tests.helpers.slot_harness import SlotHarness, command, shell, slot_in


def test_each_task_finds_its_scratch_folder_empty(slot: SlotHarness) -> None:
    """Whatever the one before has left there, or done to the folder itself."""
    handler = command("sh", "-c", 'eval "$1"', "sh", "{script}")
    for script in (
        "true",
        "touch a .b; mkdir -p c/d; touch c/d/e; chmod 500 c/d c",
        "mkdir -p c/d; touch c/d/e; chmod 0 c/d c .",
        "chmod 755 .",
        "ln -s /etc link",
        'rmdir "$PWD"',
    ):
        slot.run(handler, {"script": script})
        ended = slot.run(handler, {"script": "ls -A | wc -l; stat -c %a ."})
        assert ended.result == {"stdout": "0\n700"}, script


def test_folder_on_path_that_cannot_be_read_does_not_matter(
    slot: SlotHarness, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A missing program is missing, and a payload's fault stays the payload's."""
    obstacle = tmp_path / "file" / "folder"
    obstacle.parent.write_text("not a folder")
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)
    monkeypatch.setenv("PATH", f"{obstacle}:{closed}:{os.environ['PATH']}")
    assert slot.run(command("no-such-program")).error_class == "command-not-found"
    ended = slot.run(command("echo", "{x}"), {"x": "y" * 200_000})
    assert ended.error_class == "arguments-too-long"


def test_link_in_place_of_the_scratch_folder_is_not_followed(
    slot: SlotHarness, tmp_path: Path
) -> None:
    """What it leads to keeps its permissions, and the link goes."""
    inside = tmp_path / "home" / "shared"
    inside.mkdir(parents=True)
    inside.chmod(0o755)
    script = 'rm -r "$TASKQ_SCRATCH"; ln -s "$1" "$TASKQ_SCRATCH"'
    (inside.parent / "taskq-result.json").write_text('{"secret": 1}')
    assert slot.run(shell(script, str(inside.parent))).error_class == "bad-result"
    assert stat.S_IMODE(inside.stat().st_mode) == 0o755
    assert not [path for path in slot.scratch.rglob("*") if path.is_symlink()]


def test_result_file_that_is_a_link_is_not_read(slot: SlotHarness, tmp_path: Path) -> None:
    """It may lead to what the payload could not read itself."""
    other = tmp_path / "other.json"
    other.write_text('{"secret": 1}')
    ended = slot.run(shell('ln -s "$1" "$TASKQ_RESULT"', str(other)))
    assert (ended.outcome, ended.error_class) == (FAILED, "bad-result")
    assert "not a regular file but a link" in str(ended.error)


def test_scratch_can_be_kept(tmp_path: Path) -> None:
    with slot_in(tmp_path, keep_scratch=True) as slot:
        slot.run(shell("echo kept > file"))
    (file,) = slot.scratch.rglob("file")
    assert file.read_text() == "kept\n"


def test_scratch_that_becomes_unusable_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other folders of this machine serve meanwhile, and the first one again once it can."""
    other = tmp_path / "other"
    monkeypatch.setattr("tempfile.tempdir", str(other))
    other.mkdir()
    with slot_in(tmp_path) as slot:
        slot.scratch.write_text("a file where the folder should be")
        ended = slot.run(shell("pwd"))
        assert ended.result is not None
        assert str(ended.result["stdout"]).startswith(f"{other}/")
        slot.scratch.unlink()
        ended = slot.run(shell("pwd"))
        assert ended.result is not None
        assert str(ended.result["stdout"]).startswith(f"{slot.scratch}/")
    assert list(other.iterdir()) == []


def test_unusable_scratch_is_the_nodes_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If there is no other folder either. The tasks stay as they are, and the text names it."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    monkeypatch.setattr("taskq_agent.folders._ELSEWHERE", ())
    (tmp_path / "scratch").write_text("a file where the folder should be")
    with slot_in(tmp_path) as slot:
        ended = slot.run(command("true"))
        assert (ended.outcome, ended.node_broken) == (RELEASED, True)
        assert ended.error_class == "scratch-unusable"
        assert str(tmp_path / "scratch") in str(ended.error)
    (tmp_path / "scratch").unlink()
