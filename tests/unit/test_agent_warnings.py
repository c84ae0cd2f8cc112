"""Warnings that an agent sends with its heartbeats, such as of its spool, disk and clock."""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from taskq_agent.core.events import CallFailed
from taskq_agent.core.reports import fence, line
from taskq_agent.errors import TransportFailed
from taskq_agent.handlers.base import TransferFailure
from taskq_agent.host_warnings import Warnings, with_warnings
from taskq_agent.protocol import (
    Answer,
    Heartbeat,
    Trouble,
    Welcome,
)
from taskq_agent.protocol import Report as AgentReport
from taskq_agent.spool import Spool
from taskq_agent.threads import Slot
from taskq_agent.warning_words import (
    CLOCK_OFF,
    DISK_FULL,
    EXCHANGES_FAIL,
    SCRATCH_UNUSABLE,
    SPOOL_UNUSABLE,
    TRANSFERS_FAIL,
)
from tests.helpers.threaded_agent import FunctionRunner, done

WELCOME = Welcome(1, 30.0, 120.0)


def welcome(off_s: float) -> Welcome:
    """Return the welcome of a queue whose clock is ahead of this host's."""
    return Welcome(1, 30.0, 120.0, now=time.time() + off_s)


def test_clock_that_is_off_is_warned_of_until_it_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is compared with the queue's clock at the hello plus the monotonic time since then."""
    warnings = Warnings(None, None)
    warnings.opened(WELCOME)
    assert warnings.words() == (), "the queue says nothing of its clock"
    for off_s, words in ((0, ()), (40, ()), (-40, ()), (90, (CLOCK_OFF,)), (-1e7, (CLOCK_OFF,))):
        warnings.opened(welcome(off_s))
        assert warnings.words() == words
    clock = time.time
    monkeypatch.setattr(time, "time", lambda: clock() - 1e7)
    assert warnings.words() == ()
    monkeypatch.setattr(time, "time", lambda: clock() + 600)
    assert warnings.words() == (CLOCK_OFF,)


def test_exchanges_that_fail_for_long_are_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """As behind a proxy that cuts long answers. One answer, or a new session, ends it."""
    clock = time.monotonic
    warnings = Warnings(None, None)
    failed, answered = CallFailed(TransportFailed("cut")), Answer()
    for _ in range(3):
        warnings.note(failed)
    assert warnings.words() == (), "it may be short"
    monkeypatch.setattr(time, "monotonic", lambda: clock() + 30)
    assert warnings.words() == (EXCHANGES_FAIL,)
    warnings.note(answered)
    for _ in range(2):
        warnings.note(failed)
        monkeypatch.setattr(time, "monotonic", lambda: clock() + 90)
    assert warnings.words() == (), "long polls end early"
    warnings.note(failed)
    assert warnings.words() == (EXCHANGES_FAIL,)
    warnings.opened(WELCOME)
    assert warnings.words() == ()


def test_transfer_that_fails_for_long_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """As to a gateway whose disk is full. The warning ends with the transfer."""
    runner = FunctionRunner(done, Counter())
    slot = Slot(0, runner, lambda _: None)
    warnings = Warnings(None, None, [slot])
    clock = time.monotonic
    runner.transfer_failure = TransferFailure("413", clock())
    assert warnings.words() == (), "it may be short"
    monkeypatch.setattr(time, "monotonic", lambda: clock() + 30)
    assert warnings.words() == (TRANSFERS_FAIL,)
    assert warnings.cause() == "413"
    runner.transfer_failure = None
    assert warnings.words() == ()
    slot.finish()
    slot.join(60)


def test_scratch_disk_that_is_nearly_full_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both the free share and the free bytes must be low."""
    warnings = Warnings(tmp_path, None)
    for free, blocks, words in (
        (1_000, 10**8, (DISK_FULL,)),
        (10**6, 10**8, ()),  # 4 GiB are enough
        (1_000, 2_000, ()),  # as is half of a small disk
        (0, 2_000, (DISK_FULL,)),
    ):
        usage = SimpleNamespace(f_bavail=free, f_blocks=blocks, f_frsize=4_096)
        monkeypatch.setattr(os, "statvfs", lambda _, usage=usage: usage)
        warnings.look_at_disk()
        assert warnings.words() == words


def test_scratch_folder_that_is_gone_is_warned_of_until_it_is_back(tmp_path: Path) -> None:
    """Tasks work elsewhere meanwhile, and only the log of the agent would say so."""
    folder = tmp_path / "scratch"
    warnings = Warnings(folder, None)
    warnings.look_at_disk()
    assert warnings.words() == (SCRATCH_UNUSABLE,)
    folder.touch()
    warnings.look_at_disk()
    assert warnings.words() == (SCRATCH_UNUSABLE,), "a file is no folder"
    folder.unlink()
    folder.mkdir()
    warnings.look_at_disk()
    assert SCRATCH_UNUSABLE not in warnings.words()


def test_folders_that_come_to_be_elsewhere_call_for_a_heartbeat(tmp_path: Path) -> None:
    """Before which the agent looks why; then it is quiet, unless there is something to warn of."""
    runner = FunctionRunner(done, Counter())
    slot = Slot(0, runner, lambda _: None)
    warnings = Warnings(tmp_path / "scratch", None, [slot])
    assert not warnings.calls_for_heartbeat()
    runner.scratch_moves += 1
    assert warnings.calls_for_heartbeat()
    warnings.look_at_disk()
    assert warnings.words() == (SCRATCH_UNUSABLE,)
    assert warnings.calls_for_heartbeat()
    warnings.heard(Heartbeat(7, trouble=Trouble(warnings=warnings.words())))
    assert not warnings.calls_for_heartbeat()
    slot.finish()
    slot.join(60)


def test_spool_that_cannot_be_written_is_warned_of(tmp_path: Path) -> None:
    """The warning stays until a report is written, even if no report is left."""
    (tmp_path / "file").touch()
    spool = Spool(tmp_path / "file", "agent")
    warnings = Warnings(None, spool)
    assert warnings.words() == ()
    spool.open()
    report = AgentReport(1, 1, "l", "done")
    spool.add(fence(report), line(report))
    assert warnings.words() == (SPOOL_UNUSABLE,)
    spool.forget([fence(report)])
    assert warnings.words() == (SPOOL_UNUSABLE,), "that no report is left shows nothing"


@pytest.mark.usefixtures("small_disk")
def test_spool_that_holds_reports_again_is_no_warning(tmp_path: Path) -> None:
    """The first report that is written ends the warning."""
    now = 0.0
    spool = Spool(tmp_path, "agent", clock=lambda: now)
    spool.open()
    large, small = (AgentReport(1, n, "l", "failed", error="x" * n) for n in (5_000, 5))
    spool.add(fence(large), line(large))
    assert spool.is_unusable
    spool.forget([fence(large)])
    now = 60.0
    spool.add(fence(small), line(small))
    assert not spool.is_unusable
    spool.close()


def test_warnings_are_news_until_a_heartbeat_with_them_was_answered() -> None:
    """Each new session makes them news again. They do not hide other trouble."""
    warnings = Warnings(None, None)
    beat = with_warnings(Heartbeat(1), (CLOCK_OFF,))
    assert beat == Heartbeat(1, trouble=Trouble(warnings=(CLOCK_OFF,)))
    assert warnings.is_news((CLOCK_OFF,))
    warnings.heard(beat)
    assert not warnings.is_news((CLOCK_OFF,))
    assert warnings.is_news(())
    warnings.opened(WELCOME)
    assert warnings.is_news((CLOCK_OFF,))
    slowed = with_warnings(Heartbeat(1, trouble=Trouble(9, "x", 1.0)), (CLOCK_OFF,))
    assert slowed == Heartbeat(1, trouble=Trouble(9, "x", 1.0, (CLOCK_OFF,)))
    assert with_warnings(Heartbeat(1), ()) == Heartbeat(1)
    assert with_warnings(None, (CLOCK_OFF,)) is None
