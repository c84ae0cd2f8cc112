from __future__ import annotations

import errno
import fcntl
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskq_agent.core.reports import fence, line, parsed
from taskq_agent.protocol import DONE, FAILED, RELEASED, Report
from taskq_agent.spool import PATIENCE_S, Spool, default_folder
from tests.helpers.open_files import room_for

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
reports = st.builds(
    Report,
    campaign=st.integers(1, 2**63 - 1),
    task=st.integers(1, 2**63 - 1),
    lease=st.uuids().map(str),
    outcome=st.sampled_from([DONE, FAILED, RELEASED]),
    result=st.none()
    | st.dictionaries(
        texts, st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
    ),
    retry=st.booleans(),
    started=st.booleans(),
    error_class=st.none() | texts,
    error=st.none() | texts,
    exit_code=st.none() | st.integers(-64, 255),
    tail=st.none() | texts,
    phases=st.dictionaries(texts, st.floats(0, 1e6)),
)


def report_of(task: int, text: str = "") -> Report:
    return Report(1, task, f"{task:08x}-0000-7000-8000-000000000000", DONE, result={"text": text})


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    spool = Spool(tmp_path, "agent")
    assert spool.open() == []
    yield spool
    spool.close()


def keep(spool: Spool, *kept: Report) -> None:
    for report in kept:
        spool.add(fence(report), line(report))


def left_in(folder: Path) -> list[Report]:
    """Return what a new agent takes over."""
    spool = Spool(folder, "successor")
    inherited = [report for report, _ in spool.open()]
    spool.close()
    return inherited


def files_in(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


@given(reports)
def test_report_survives_its_line(report: Report) -> None:
    """What is read from the disk is what was written, character by character."""
    text = line(report)
    assert text.count(b"\n") == 1
    assert parsed(text) == report


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"{}",
        b"\xff",
        b'{"campaign":1,"task":2,"lease":3,"outcome":"done"}',
        b'{"campaign":1,"task":2,"lease":"3","outcome":"odd"}',
        b"[" * 100_000,
    ],
)
def test_line_that_is_no_report_is_refused(text: bytes) -> None:
    """Nothing but a report is ever sent as one."""
    with pytest.raises(ValueError, match=r"."):
        parsed(text)


def test_members_of_a_newer_release_are_left_out() -> None:
    """An agent that was put back to an older release still sends what the newer one left."""
    report = report_of(1)
    assert parsed(line(report)[:-2] + b',"colour":"blue"}\n') == report


def test_reports_of_a_dead_agent_are_taken_over(spool: Spool, tmp_path: Path) -> None:
    """What an agent had not delivered when it ended is sent by the next one, oldest first."""
    keep(spool, report_of(1), report_of(2))
    spool.close()
    assert left_in(tmp_path) == [report_of(1), report_of(2)]


def test_inherited_reports_stay_on_disk_until_they_are_forgotten(tmp_path: Path) -> None:
    """An heir that is killed as well hands the reports on."""
    first = Spool(tmp_path, "first")
    first.open()
    keep(first, report_of(1), report_of(2))
    first.close()
    assert left_in(tmp_path) == [report_of(1), report_of(2)]
    heir = Spool(tmp_path, "heir")
    assert [report for report, _ in heir.open()] == [report_of(1), report_of(2)]
    heir.forget([fence(report_of(1)), fence(report_of(2))])
    heir.close()
    assert files_in(tmp_path) == []


def test_living_agent_keeps_its_reports(spool: Spool, tmp_path: Path) -> None:
    """Two agents share a folder, but never a file."""
    keep(spool, report_of(1))
    assert left_in(tmp_path) == []
    other = Spool(tmp_path, "agent")
    other.open()
    keep(other, report_of(2))
    assert len(files_in(tmp_path)) == 2
    other.close()


def test_reports_of_a_killed_process_are_taken_over(tmp_path: Path) -> None:
    """SIGKILL gives up the lock and loses nothing that was written."""
    program = (
        "import os, signal, sys; from pathlib import Path\n"
        "from taskq_agent.protocol import Held; from taskq_agent.spool import Spool\n"
        "spool = Spool(Path(sys.argv[1]), 'victim'); spool.open()\n"
        "spool.add(Held(1, 1, 'lease 1'), sys.stdin.buffer.readline())\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    victim = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        input=line(report_of(1)),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
        timeout=30,
    )
    assert victim.returncode == -signal.SIGKILL
    assert left_in(tmp_path) == [report_of(1)]


def test_file_system_without_locks_is_named_and_reports_stay_in_memory(
    spool: Spool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The agent works on, and its warning says which option helps."""

    def flock(_: int, __: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", flock)
    keep(spool, report_of(1))
    assert spool.is_unusable
    assert "no locks (No locks available); give --spool a folder on a local disk" in caplog.text


def test_torn_last_line_costs_no_other_report(spool: Spool, tmp_path: Path) -> None:
    """A line that was being written when the node died is passed over."""
    keep(spool, report_of(1), report_of(2))
    spool.close()
    (path,) = files_in(tmp_path)
    path.write_bytes(path.read_bytes()[:-5])
    assert left_in(tmp_path) == [report_of(1)]


def test_planted_file_that_claims_to_be_huge_is_read_no_further(
    spool: Spool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A payload of the same user may leave one; what was written before is sent."""
    monkeypatch.setattr("taskq_agent.spool.MAX_LINE_BYTES", 1_000)
    keep(spool, report_of(1))
    spool.close()
    with spool.path.open("ab") as file:
        file.truncate(1 << 40)
    assert left_in(tmp_path) == [report_of(1)]


def test_file_is_empty_when_all_is_acknowledged(spool: Spool) -> None:
    """A long campaign does not fill the disk."""
    keep(spool, report_of(1), report_of(2))
    assert spool.path.stat().st_size > 0
    spool.forget([fence(report_of(1)), fence(report_of(2))])
    assert spool.path.stat().st_size == 0


def test_file_stays_small_although_one_report_stays(spool: Spool) -> None:
    """Lines of acknowledged reports are cleared away even if the file is never quite empty."""
    keep(spool, report_of(0))
    text = "x" * 50_000
    for task in range(1, 101):
        keep(spool, report_of(task, text))
        spool.forget([fence(report_of(task))])
    assert spool.path.stat().st_size < 2 << 20


def test_compacted_file_is_still_locked(spool: Spool, tmp_path: Path) -> None:
    """Replacing the file does not open it to others for a moment."""
    keep(spool, report_of(0))
    for task in range(1, 60):
        keep(spool, report_of(task, "x" * 50_000))
        spool.forget([fence(report_of(task))])
    assert left_in(tmp_path) == []
    spool.close()
    assert report_of(0) in left_in(tmp_path)


def test_file_is_for_its_owner_only(tmp_path: Path) -> None:
    """Results are nobody else's business."""
    spool = Spool(tmp_path / "new" / "folder", "../agent one")
    spool.open()
    keep(spool, report_of(1))
    assert spool.path.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "new" / "folder").stat().st_mode & 0o777 == 0o700
    assert spool.path.parent == tmp_path / "new" / "folder"
    spool.close()


def test_strange_files_are_left_alone(tmp_path: Path) -> None:
    """What is no regular file, or is somebody else's, is not read as a spool."""
    os.mkfifo(tmp_path / "pipe.reports")
    secret = tmp_path / "elsewhere"
    secret.write_bytes(line(report_of(1)))
    (tmp_path / "link.reports").symlink_to(secret)
    (tmp_path / "folder.reports").mkdir()
    before = files_in(tmp_path)
    assert left_in(tmp_path) == []
    assert files_in(tmp_path) == before


def test_dead_are_found_among_more_living_than_files_can_be_open(
    spool: Spool, tmp_path: Path
) -> None:
    """Names of one locked file stand for the files of many agents."""
    keep(spool, report_of(1))
    for number in range(100):
        (tmp_path / f"living-{number}.reports").hardlink_to(spool.path)
    (tmp_path / "zombie.reports").write_bytes(line(report_of(2)))
    with room_for(20):
        inherited = left_in(tmp_path)
    assert inherited == [report_of(2)]


def test_unfinished_files_of_the_dead_are_cleared_away(tmp_path: Path) -> None:
    """A process killed in the middle of a replacement leaves no rubbish for ever."""
    (tmp_path / "agent-1.reports.new").write_bytes(line(report_of(1))[:10])
    assert left_in(tmp_path) == []
    assert files_in(tmp_path) == []


def test_work_goes_on_without_a_spool(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A folder that cannot be made is reported once, and reports are kept in memory."""
    (tmp_path / "file").write_text("in the way")
    spool = Spool(tmp_path / "file" / "spool", "agent")
    assert spool.open() == []
    keep(spool, report_of(1), report_of(2))
    spool.forget([fence(report_of(1))])
    spool.close()
    assert [record.levelname for record in caplog.records] == ["WARNING"]


@pytest.mark.usefixtures("small_disk")
def test_full_disk_tears_no_line_and_loses_no_report(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """While the disk is full reports are in memory; later they are on disk again, all of them."""
    caplog.set_level(logging.INFO)
    now = 0.0
    spool = Spool(tmp_path, "agent", clock=lambda: now)
    spool.open()
    large = [report_of(task, "x" * 1_000) for task in range(1, 7)]
    keep(spool, *large)
    assert spool.path.stat().st_size <= 4_000
    assert all(parsed(text) in large for text in spool.path.read_bytes().splitlines())
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    spool.forget([fence(report) for report in large[:5]])
    now = 60.0
    keep(spool, report_of(7))
    assert [parsed(text) for text in spool.path.read_bytes().splitlines()] == [
        large[5],
        report_of(7),
    ]
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    spool.close()


def test_patient_spool_writes_only_what_the_queue_does_not_take(tmp_path: Path) -> None:
    """Reports that come through leave no file; one that waits, and those after it, are written."""
    now = [0.0]
    spool = Spool(tmp_path / "own/queue", "agent", lambda: now[0], patience_s=PATIENCE_S)
    assert spool.open() == []
    for task in range(1, 4):
        now[0] += 1
        keep(spool, report_of(task))
        spool.forget([fence(report_of(task))])
    keep(spool, report_of(4))
    assert list(tmp_path.iterdir()) == []
    now[0] += PATIENCE_S
    keep(spool, report_of(5))
    (file,) = files_in(tmp_path / "own/queue")
    assert file.read_bytes() == line(report_of(4)) + line(report_of(5))
    spool.forget([fence(report_of(4)), fence(report_of(5))])
    spool.close()
    assert list((tmp_path / "own/queue").iterdir()) == []


def test_patient_spool_leaves_at_its_end_what_is_left(tmp_path: Path) -> None:
    folder = tmp_path / "own/queue"
    spool = Spool(folder, "agent", patience_s=PATIENCE_S)
    spool.open()
    keep(spool, report_of(1), report_of(2))
    spool.close()
    assert folder.stat().st_mode & 0o777 == folder.parent.stat().st_mode & 0o777 == 0o700
    after = Spool(folder, "agent", patience_s=PATIENCE_S)
    assert [report for report, _ in after.open()] == [report_of(1), report_of(2)]
    after.close()


def test_patient_spool_writes_to_no_folder_of_another_user(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Such as a link that a stranger has put among temporary files."""
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (tmp_path / "own").symlink_to(theirs)
    spool = Spool(tmp_path / "own/queue", "agent", patience_s=PATIENCE_S)
    spool.open()
    keep(spool, report_of(1))
    spool.close()
    assert spool.is_unusable
    assert list(theirs.iterdir()) == []
    assert "is not a folder of this user; name one by --spool" in caplog.text


def test_default_spool_is_one_for_each_queue_and_outlives_a_job(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    first = default_folder("https://one", "token")
    assert first.parent == tmp_path / f".cache/taskq-spool-{os.geteuid()}"
    assert first != default_folder("https://one", "other") != default_folder("https://two", "token")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert default_folder("https://one", "token") == Path("/cache", *first.parts[-2:])
