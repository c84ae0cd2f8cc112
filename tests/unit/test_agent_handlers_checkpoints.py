"""Checkpoints in one slot: what a payload leaves is there for the next attempt."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from taskq_agent.errors import TransportFailed
from taskq_agent.handlers import Ended
from taskq_agent.protocol import CONTINUED, DONE, FAILED, RELEASED, Held, Input
from taskq_agent.try_command import LocalBlobs
from tests.helpers.meanwhile import meanwhile
from tests.helpers.slot_harness import SlotHarness, python, shell, slot_in, talker
from tests.helpers.waiting import wait_until

MOST = 100_000
#: Counts the attempts that have gone before, and goes on in another one.
GOES_ON = """
n=$(cat "$TASKQ_CHECKPOINT/n" 2>/dev/null || echo 0)
test "$n" -lt 3 || { echo "{\\"n\\": $n}"; exit 0; }
echo $((n + 1)) > "$TASKQ_CHECKPOINT/.n"
mv "$TASKQ_CHECKPOINT/.n" "$TASKQ_CHECKPOINT/n"
exit 85
"""


class FrailBlobs(LocalBlobs):
    """Blobs that can be lost or out of reach. saved: how often a checkpoint was."""

    def __init__(self) -> None:
        super().__init__()
        self.saved = 0
        self.is_away = False
        self.is_late = False
        self.odd: Exception | None = None

    def find_checkpoint(self, held: Held) -> Input | None:
        """Find, if it can be reached."""
        if self.is_away:
            raise TransportFailed("away")
        return super().find_checkpoint(held)

    def save_checkpoint(self, held: Held, saved: Input) -> bool:
        """Save, unless the lease is no longer valid."""
        if self.odd is not None:
            raise self.odd
        if self.is_late:
            return False
        self.saved += 1
        return super().save_checkpoint(held, saved)


@pytest.fixture
def blobs() -> FrailBlobs:
    """Give a store."""
    return FrailBlobs()


@pytest.fixture
def slot(tmp_path: Path, blobs: FrailBlobs) -> Iterator[SlotHarness]:
    """Give a slot."""
    with slot_in(tmp_path, grace_s=1, blobs=blobs) as harness:
        yield harness


def run(slot: SlotHarness, handler: dict[str, Any], attempt: int = 1, **more: Any) -> Ended:
    """Run an attempt of a campaign that keeps checkpoints."""
    return slot.run(handler, attempt=attempt, **{"checkpoint_bytes": MOST, **more})


def stopped(slot: SlotHarness, script: str, ready: Path, **more: Any) -> Ended:
    """Run a script that makes a file and goes on for ever; stop it then."""
    with slot.stopped_once(ready.exists):
        return run(slot, shell(f'{script}; touch "$1"; sleep 1000', str(ready)), **more)


def test_command_goes_on_by_its_exit_code(slot: SlotHarness) -> None:
    """Handed back three times, done with the fourth attempt."""
    ends = [run(slot, shell(GOES_ON), attempt) for attempt in (1, 2, 3, 4)]
    assert [(end.outcome, end.error_class) for end in ends] == [
        *[(RELEASED, CONTINUED)] * 3,
        (DONE, None),
    ]
    assert ends[-1].result == {"n": 3}


def test_without_the_option_nothing_is_kept(slot: SlotHarness) -> None:
    """No folder, and an exit code like any other."""
    ended = slot.run(shell('test -z "$TASKQ_CHECKPOINT" && exit 85'))
    assert (ended.outcome, ended.error_class) == (FAILED, "exit-85")
    ended = slot.run(python("go_on"))
    assert (ended.outcome, ended.error_class, ended.retry) == (FAILED, "no-checkpoint", False)


def test_folder_that_became_a_file_fails_the_attempt_only(slot: SlotHarness) -> None:
    """The agent goes on with the next one."""
    ended = run(slot, shell('rmdir "$TASKQ_CHECKPOINT"; echo x > "$TASKQ_CHECKPOINT"; exit 85'))
    assert (ended.outcome, ended.error_class, ended.retry) == (FAILED, "checkpoint-refused", False)
    assert "it cannot be read" in str(ended.error)


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (RecursionError("odd"), FAILED),
        (PermissionError(errno.EACCES, "odd"), FAILED),
        (OSError(errno.EMFILE, "odd"), RELEASED),
        (MemoryError("odd"), RELEASED),
    ],
)
def test_error_that_nobody_expected_ends_the_attempt_only(
    slot: SlotHarness, blobs: FrailBlobs, error: Exception, outcome: str
) -> None:
    """With its name in the report; a node that is out of something takes no more tasks."""
    blobs.odd = error
    leaves = shell('echo x > "$TASKQ_CHECKPOINT/x"; exit 85')
    ended = run(slot, leaves)
    assert (ended.outcome, ended.error_class, ended.retry) == (outcome, "agent-error", True)
    assert ended.node_broken == (outcome == RELEASED)
    assert type(error).__name__ in str(ended.error)
    blobs.odd = None
    assert run(slot, leaves).error_class == CONTINUED


def test_python_goes_on_by_an_exception(slot: SlotHarness) -> None:
    """In the same child, which finds what it has left."""
    first, second = run(slot, python("go_on")), run(slot, python("go_on"), 2)
    assert (first.outcome, first.error_class, first.error) == (RELEASED, CONTINUED, "one step")
    assert second.result == {"found": "state"}


def test_resident_process_gets_the_folder_of_checkpoints_and_continues(slot: SlotHarness) -> None:
    """By the verdict `continue`."""
    ended = run(slot, talker(), payload={"lines": [{"error": "later", "verdict": "continue"}]})
    assert (ended.outcome, ended.error_class) == (RELEASED, CONTINUED)
    result = run(slot, talker(), 2, payload={}).result
    assert result is not None
    about = result["message"]["task"]
    assert about["checkpoint"] == f"{about['scratch']}/taskq-checkpoint"


def test_stopped_attempt_leaves_its_checkpoint(
    slot: SlotHarness, blobs: FrailBlobs, tmp_path: Path
) -> None:
    """What was there in the moment of its end; one that has failed leaves the one before."""
    script = 'echo good > "$TASKQ_CHECKPOINT/state"'
    ended = stopped(slot, script, tmp_path / "ready")
    assert (ended.outcome, ended.error_class, blobs.saved) == (RELEASED, "stopped", 1)
    bad = 'echo bad > "$TASKQ_CHECKPOINT/state"; exit 1'
    assert run(slot, shell(bad), 2).error_class == "exit-1"
    shown = run(slot, shell('cat "$TASKQ_CHECKPOINT/state"'), 3)
    assert (shown.result, blobs.saved) == ({"stdout": "good"}, 1)


def test_payload_that_sigterm_has_ended_leaves_its_checkpoint(slot: SlotHarness) -> None:
    """A batch system may signal the payload before its agent."""
    ended = run(slot, shell('echo good > "$TASKQ_CHECKPOINT/state"; kill -TERM $$'))
    assert ended.error_class == "signal-SIGTERM"
    shown = run(slot, shell('cat "$TASKQ_CHECKPOINT/state"'), 2)
    assert shown.result == {"stdout": "good"}


def test_checkpoint_is_uploaded_while_the_attempt_runs(
    slot: SlotHarness, blobs: FrailBlobs, tmp_path: Path
) -> None:
    """For the case that its agent is lost; what has not changed is not uploaded again."""
    go = tmp_path / "go"
    script = 'echo a > "$TASKQ_CHECKPOINT/state"; until test -e "$1"; do sleep 0.05; done'

    def wait_and_go(_: Event) -> None:
        wait_until(lambda: blobs.saved == 1)
        go.touch()

    with meanwhile(wait_and_go):
        ended = run(slot, shell(script, str(go)), checkpoint_every_s=0.05)
    assert (ended.outcome, blobs.saved) == (DONE, 1)


def test_checkpoints_are_uploaded_again_after_the_node_had_no_room_for_one(
    slot: SlotHarness, blobs: FrailBlobs, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The attempt runs on meanwhile."""
    blobs.odd = OSError(errno.EMFILE, "no descriptor")
    go = tmp_path / "go"
    script = 'echo a > "$TASKQ_CHECKPOINT/state"; until test -e "$1"; do sleep 0.05; done'

    def wait_and_go(_: Event) -> None:
        wait_until(lambda: "no descriptor" in caplog.text)
        blobs.odd = None
        wait_until(lambda: blobs.saved == 1)
        go.touch()

    with meanwhile(wait_and_go):
        assert run(slot, shell(script, str(go)), checkpoint_every_s=0.05).outcome == DONE


def test_checkpoint_that_is_too_large_is_reported(slot: SlotHarness, tmp_path: Path) -> None:
    """An attempt that would go on has failed; one that was stopped is handed back, with a note."""
    large = 'head -c 200000 /dev/zero > "$TASKQ_CHECKPOINT/state"'
    ended = run(slot, shell(f"{large}; exit 85"))
    assert (ended.outcome, ended.error_class) == (FAILED, "checkpoint-refused")
    assert not ended.retry
    ended = stopped(slot, large, tmp_path / "ready")
    assert ended.outcome == RELEASED
    assert ended.error is not None
    assert "its checkpoint is not kept: it is larger than" in ended.error


@pytest.mark.thorough
def test_checkpoint_that_cannot_be_fetched_hands_the_task_back(
    slot: SlotHarness, blobs: FrailBlobs
) -> None:
    """As it was: beginning anew would throw hours away."""
    assert run(slot, shell(GOES_ON)).error_class == CONTINUED
    blobs.is_away = True
    ended = run(slot, shell(GOES_ON), 2)
    assert (ended.outcome, ended.started) == (RELEASED, False)
    assert ended.error_class == "checkpoint-unreachable"


def test_damaged_or_planted_checkpoint_is_left(slot: SlotHarness, blobs: FrailBlobs) -> None:
    """The attempt begins anew, with an empty folder."""
    assert run(slot, shell(GOES_ON)).error_class == CONTINUED
    (digest,) = blobs.written
    blobs.written[digest] = b"x" * len(blobs.written[digest])
    listed = run(slot, shell('ls -a "$TASKQ_CHECKPOINT" | wc -l'), 2)
    assert listed.result == {"stdout": "2"}


def test_attempt_that_is_late_saves_nothing(slot: SlotHarness, blobs: FrailBlobs) -> None:
    """It is handed back all the same; the queue says what that is worth."""
    blobs.is_late = True
    ended = run(slot, shell(GOES_ON))
    assert (ended.outcome, ended.error_class, blobs.saved) == (RELEASED, CONTINUED, 0)
