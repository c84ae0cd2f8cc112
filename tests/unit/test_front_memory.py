"""Memory of a gateway for the front: the answers it gave, and what it believes of lists."""

from __future__ import annotations

from taskq.front.buffer import Replay
from taskq.front.depths import LONGEST_PROBE_S, MOST_PROBED, PROBE_S, WANTED_S, Depths
from taskq.front.entries import Entry
from taskq_agent.protocol import Task

ANY_TASK = Task(1, 1, 1, "k", 1, "lease", {})


def share(*raws: bytes, until: float = 100.0) -> list[Entry]:
    """Return what a claim got."""
    return [Entry(ANY_TASK, raw, until) for raw in raws]


def test_repeated_claim_gets_what_it_got_before() -> None:
    """An answer may get lost; the lease id of the claim finds it again."""
    repeats = Replay()
    repeats.put(1, "a", share(b"one", b"other"))
    assert repeats.get(1, "a", 99.0) == [b"one", b"other"]
    assert repeats.get(1, "b", 99.0) is None
    assert repeats.get(2, "a", 99.0) is None


def test_repeated_claim_gets_nothing_that_is_too_old() -> None:
    """Somebody else may have a task by then; but it is not taken for a new claim either."""
    repeats = Replay()
    repeats.put(1, "a", share(b"old") + share(b"young", until=200.0))
    assert not repeats.get(1, "a", 100.0)
    assert repeats.get(1, "a", 100.0) is not None


def test_only_the_last_claim_of_a_session_is_kept() -> None:
    """An agent that claims anew has got the answer before."""
    repeats = Replay()
    repeats.put(1, "a", share(b"entry"))
    repeats.put(1, "b", share(b"another"))
    assert repeats.get(1, "a", 0.0) is None
    assert repeats.get(1, "b", 0.0) == [b"another"]


def test_sessions_that_claimed_longest_ago_are_forgotten_first() -> None:
    """Who claims every second is not crowded out by those who came after it once."""
    repeats = Replay(most_sessions=2)
    for session in (1, 2, 1, 3):
        repeats.put(session, "a", share(b"entry"))
    assert [session for session in (1, 2, 3) if repeats.get(session, "a", 0.0)] == [1, 3]


def test_large_entries_do_not_fill_the_memory() -> None:
    """Fifty thousand payloads of 64 KiB would be 3 GiB."""
    repeats = Replay(most_bytes=1_000)
    for session in range(10):
        repeats.put(session, "a", share(b"x" * 300))
        repeats.put(session, "b", share(b"x" * 200, b"x" * 100))
    assert [session for session in range(10) if repeats.get(session, "b", 0.0)] == [7, 8, 9]


def test_claim_larger_than_all_that_is_kept_is_not_kept() -> None:
    """Its answer may get lost, as any whose session is forgotten."""
    repeats = Replay(most_bytes=1_000)
    repeats.put(1, "a", share(b"x" * 1_001))
    assert repeats.get(1, "a", 0.0) is None
    repeats.put(1, "b", share(b"x" * 1_000))
    assert repeats.get(1, "b", 0.0)


def test_empty_list_that_is_wanted_is_looked_at_again_less_and_less() -> None:
    """A campaign that is not for the front must not cost ten looks a second."""
    depths = Depths()
    assert depths.wait_s(0) is None
    assert depths.want(7, 0)
    now, pauses = 0.0, []
    for _ in range(6):
        depths.want(7, now)
        assert depths.due(now) == [7]
        assert depths.due(now) == []
        wait_s = depths.wait_s(now)
        assert wait_s is not None
        pauses.append(wait_s)
        now += wait_s
    assert pauses[0] == PROBE_S
    assert pauses == sorted(pauses)
    assert pauses[-1] == LONGEST_PROBE_S


def test_list_that_nobody_wants_any_more_is_left_alone() -> None:
    """An idle gateway asks for nothing."""
    depths = Depths()
    depths.want(7, 0)
    assert depths.due(WANTED_S + 1) == []
    assert depths.wait_s(WANTED_S + 1) is None


def test_list_with_entries_is_believed_in_until_it_was_found_empty() -> None:
    """What a pop finds is the newest that is known."""
    depths = Depths()
    depths.want(7, 0)
    depths.note(7, 3)
    depths.note(8, 2)
    assert 7 in depths
    assert depths.wait_s(0) is None, "it is not looked at without need"
    assert depths.total == 5
    depths.note(7, 0)
    assert 7 not in depths
    depths.clear()
    assert 8 not in depths


def test_one_look_is_bounded() -> None:
    """However many campaigns are asked for, they take turns."""
    depths = Depths()
    for campaign in range(3 * MOST_PROBED):
        depths.want(campaign, 0)
    looked = [depths.due(0) for _ in range(4)]
    assert [len(row) for row in looked] == [MOST_PROBED] * 3 + [0]
    assert len({campaign for row in looked for campaign in row}) == 3 * MOST_PROBED
