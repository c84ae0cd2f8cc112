"""Histories: what is read of them, and that nothing of them is lost."""

from __future__ import annotations

import math
import resource
from pathlib import Path

from tests.chaos.history import Answer, Checkpoint, Look, Writer, read


def test_history_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Several writers, one through a process of its own; what has no answer is kept."""
    writer, agent = Writer(tmp_path, "clients"), Writer(tmp_path, "agent", piped=True)
    writer.note("seeding", keys=["a", "b"])
    writer.note("seeded", keys=["a"])
    agent.note("claimed", agent="x.1", task=1, key="a", attempt=1, lease="l")
    writer.note("began", execution="e", agent="x.1", key="a", attempt=1)
    writer.note("restored", execution="e", kept_by="d", step=2)
    writer.note("kept", execution="e", step=3)
    agent.note("saved", task=1, lease="l", execution="e", step=3)
    writer.note("ended", execution="e", outcome="done")
    agent.note("answered", task=1, lease="l", outcome="done", verdict="accepted", execution="e")
    writer.note("ordering", verb="cancel", key="a")
    writer.note("ordered", verb="cancel", key="a", moved=0)
    writer.note("ordering", verb="retry", key="b")
    agent.note("opening", session="s", host="h", site="here")
    agent.note("opening", session="s", host="h", site="here")
    agent.note("opened", session="s")
    writer.note("banned", kind="host", name="h")
    writer.note("lifting")
    writer.note("sweeping", verb="cancel", word="12")
    writer.note("swept")
    writer.note("sweeping", verb="retry", word="3")
    writer.note("withdrawing", key="a")
    writer.note("withdrew", moved=1)
    writer.note("withdrawing", key="b")
    writer.note("read", gone=[("a", 1)], given=[("c", 2)])
    writer.note("fault", kind="cut", target="way", seen=None)
    writer.close()
    agent.close()

    history = read(tmp_path)
    assert history.seeding.keys() == {"a", "b"}
    assert history.seeded.keys() == {"a"}
    assert history.leases == {("x.1", 1, 1): {"l"}}
    begun = history.executions["e"]
    assert (begun.agent, begun.key, begun.attempt, begun.outcome) == ("x.1", "a", 1, "done")
    assert history.restored == {"e": Checkpoint("d", 2)}
    assert (history.kept, history.saved) == ({"e": 3}, [Checkpoint("e", 3, 1, "l")])
    (answer,) = history.answers
    assert answer == Answer(1, "l", "done", "accepted", "e", answer.at)
    (session,) = history.sessions.values()
    assert session.asked < session.opened < history.bans[0].since < history.bans[0].until
    assert [(sweep.verb, sweep.word, sweep.ended < math.inf) for sweep in history.sweeps] == [
        *(("cancel", "12", True), ("retry", "3", False)),
    ]
    assert [(order.verb, order.key, order.moved) for order in history.orders] == [
        ("cancel", "a", False),
        ("retry", "b", None),
    ]
    assert [(withdrawal.key, withdrawal.moved) for withdrawal in history.withdrawals] == [
        ("a", True),
        ("b", None),
    ]
    assert history.looks == [Look([("a", 1)], [("c", 2)])]


def test_history_of_a_process_grows_though_its_disk_was_full_at_the_start(tmp_path: Path) -> None:
    """The limit that stands for the full disk holds for the process, and for no writer of it."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8, before[1]))
    try:
        writer = Writer(tmp_path, "agent", piped=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    writer.note("fault", kind="full-spool")
    writer.close()
    assert "full-spool" in (tmp_path / "agent.history").read_text()
