"""Seeding: streamed, repeatable, interruptible, and safe next to others."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import psycopg
import pytest

from taskq import Campaign, Client, Seed
from taskq.ingest.seeding import CHUNK, CHUNK_CHARS, SeedCount
from taskq.model.errors import InvalidTask, UsageError
from taskq.model.seed import MAX_PAYLOAD_DEPTH
from tests.fixtures.queues import Hire
from tests.helpers.command_line import CommandLine
from tests.helpers.postgres import Postgres, assert_counts_are_true, statuses, value
from tests.helpers.waiting import BUSY_S

MIB = 1024 * 1024

pytestmark = pytest.mark.both_transports(
    near=[
        "test_interrupted_seeding_does_not_wait_for_a_database_that_hangs",
        "test_progress_is_reported_after_each_chunk",
        "test_seed_of_a_database_that_refuses_a_chunk_keeps_those_before",
        "test_seeded_tasks_are_claimed_while_seeding_goes_on",
    ]
)

# Seeds so many tasks, and says how many were added and the greatest memory it took, in KiB: not
# ru_maxrss, which a process inherits from the one that started it.
SEEDER = """
import json, re, sys
from pathlib import Path
import taskq

count = int(sys.argv[1])
with taskq.connect() as queue:
    done = queue.campaign("/c").seed(
        {"smiles": f"CC(=O)Oc1ccccc1C(=O)O{n}", "seed": n, "box": [22.5, 22.5, 22.5]}
        for n in range(count)
    )
peak = re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())
print(json.dumps([done.added, int(peak[1])]))
"""


def numbered(count: int, begin: int = 0) -> Iterator[Seed]:
    """Yield seeds with the keys 000000, 000001, ..."""
    return (Seed({"n": n}, f"{n:06d}") for n in range(begin, begin + count))


def interrupted(records: Iterable[Seed], after: int, error: BaseException) -> Iterator[Seed]:
    """Yield so many of some records, then raise."""
    for number, record in enumerate(records):
        if number == after:
            raise error
        yield record


def start_seeder(command_line: CommandLine, count: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", SEEDER, str(count)],
        stdout=subprocess.PIPE,
        env=command_line.environment,
    )


def outcome(seeder: subprocess.Popen[bytes]) -> tuple[int, int]:
    """Wait for a seeder; return how many tasks it added, and the memory it took in bytes."""
    said, _ = seeder.communicate(timeout=120)
    assert seeder.returncode == 0
    added, kib = json.loads(said)
    return added, kib * 1024


@pytest.mark.thorough
def test_tasks_are_numbered_as_they_were_seeded(campaign: Campaign) -> None:
    """Across chunks, so that claims go in the order of the file."""
    count = campaign.seed(numbered(2 * CHUNK + 1))
    assert (count.read, count.added, count.known, count.bad) == (2 * CHUNK + 1, 2 * CHUNK + 1, 0, 0)
    found = [(view.key, view.payload["n"]) for view in campaign.tasks()]
    assert found == [(f"{n:06d}", n) for n in range(2 * CHUNK + 1)]


def test_seeding_again_adds_nothing(campaign: Campaign, postgres: Postgres) -> None:
    """The same file twice is the same campaign; what is new in a longer file is added."""
    campaign.seed(numbered(CHUNK + 5))
    again = campaign.seed(numbered(CHUNK + 8))
    assert (again.added, again.known) == (3, CHUNK + 5)
    assert campaign.status().waiting == CHUNK + 8
    assert_counts_are_true(postgres)


@pytest.mark.parametrize(
    "keys", ["a", "é", "\U0001f9ea", "Aa", "aé", "a\U0001f9ea", "é\uffff\U0001f9ea", "zéyA"]
)
def test_known_keys_are_found_wherever_they_lie_among_new_ones(
    campaign: Campaign, postgres: Postgres, keys: str
) -> None:
    """At either end of a chunk's keys, between them, equal to all; in the order of their bytes."""
    campaign.seed(Seed({}, key) for key in ["é", "a", "\U0001f9ea"])
    known = sum(key in "éa\U0001f9ea" for key in keys)
    count = campaign.seed(Seed({}, key) for key in keys)
    assert (count.added, count.known) == (len(keys) - known, known)
    assert_counts_are_true(postgres)


def test_seeding_again_leaves_tasks_as_they_are(
    campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """Whatever has become of them since; neither a payload nor a priority is ever changed."""
    campaign.seed([Seed({"n": 1}, "a"), Seed({"n": 2}, "b")])
    agent = hire()
    agent.done(agent.claim(1)[0])
    again = [Seed({"n": 1}, "a", 5), Seed({"n": 20}, "b", 5)]
    count = campaign.seed(again, on_conflict="skip")
    assert (count.added, count.known, count.conflicts) == (0, 1, 1)
    assert statuses(postgres) == {"a": "done", "b": "waiting"}
    assert [(view.payload, view.priority) for view in campaign.tasks()] == [
        ({"n": 1}, 0),
        ({"n": 2}, 0),
    ]


@pytest.mark.thorough
def test_of_records_with_the_same_key_the_first_counts(campaign: Campaign) -> None:
    """Side by side as far apart."""
    count = campaign.seed(
        [
            Seed({"n": -2}, "000000"),
            Seed({"n": -1}, "000000"),
            *numbered(CHUNK),
            Seed({}, "000001"),
        ],
        on_conflict="skip",
    )
    assert (count.read, count.added, count.conflicts) == (CHUNK + 3, CHUNK, 3)
    assert campaign.task("000000").payload == {"n": -2}
    assert campaign.task("000001").payload == {"n": 1}


def test_tasks_without_keys_are_identified_by_their_payload(campaign: Campaign) -> None:
    """In whatever order its names come; a different type is a different payload."""
    count = campaign.seed([{"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": "1", "b": 2}, {"a": 1}])
    assert (count.added, count.known) == (3, 1)


def test_campaigns_may_use_the_same_keys(queue: Client) -> None:
    """A key belongs to its campaign."""
    for path in ("/a", "/a/b"):
        assert queue.create_campaign(path).seed(numbered(3)).added == 3


def test_progress_is_reported_after_each_chunk(campaign: Campaign) -> None:
    """With what has been committed by then."""
    reported: list[tuple[int, int]] = []

    def on_progress(count: SeedCount) -> None:
        assert campaign.status().total == count.added
        reported.append((count.read, count.added))

    campaign.seed(numbered(CHUNK + 7), on_progress=on_progress)
    assert reported == [(CHUNK, CHUNK), (CHUNK + 7, CHUNK + 7)]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError("the disk is gone")])
def test_interrupted_seeding_can_be_repeated_from_the_start(
    error: BaseException, campaign: Campaign, postgres: Postgres
) -> None:
    """Chunks that were committed stay, the rest is as if it had never been begun."""
    records = CHUNK + 100
    with pytest.raises(type(error)):
        campaign.seed(interrupted(numbered(records), CHUNK + 50, error))
    assert campaign.status().waiting == CHUNK
    assert_counts_are_true(postgres)
    assert campaign.seed(numbered(records)).added == 100
    assert campaign.status().waiting == records


def test_bad_record_ends_seeding_and_is_named(campaign: Campaign) -> None:
    """With its number, the reason, and how far seeding has come."""
    records = [*numbered(CHUNK), Seed({}, ""), *numbered(5, CHUNK)]
    with pytest.raises(InvalidTask, match=rf"record at {CHUNK + 1}: key .* so far: {CHUNK};"):
        campaign.seed(records)
    assert campaign.status().waiting == CHUNK


def test_bad_records_can_be_passed_over(campaign: Campaign) -> None:
    """Each is handed to the caller with its number."""
    bad: list[tuple[int, str]] = []
    count = campaign.seed(
        [Seed({}, "a"), Seed({}, "b\0"), Seed({}, "c"), Seed({}, "d" * 256)],
        on_bad=lambda line: bad.append((line.number, line.reason)),
    )
    assert (count.read, count.added, count.known, count.bad) == (4, 2, 0, 2)
    assert [number for number, _ in bad] == [2, 4]
    assert "NUL" in bad[0][1]
    assert "256 characters" in bad[1][1]


@pytest.mark.thorough
def test_seeds_of_two_processes_at_once_add_each_task_once(
    campaign: Campaign, command_line: CommandLine, postgres: Postgres
) -> None:
    """The same file, started twice: between them they add all of it, and neither fails."""
    seeders = [start_seeder(command_line, 4 * CHUNK) for _ in range(2)]
    added = [outcome(seeder)[0] for seeder in seeders]
    assert sum(added) == 4 * CHUNK == campaign.status().waiting
    assert value(postgres, "select count(*) from taskq.spec") == 4 * CHUNK
    assert_counts_are_true(postgres)


@pytest.mark.thorough
def test_seeds_in_different_orders_at_once_do_not_deadlock(
    campaign: Campaign, postgres: Postgres
) -> None:
    """Two files with the same keys, one of them backwards."""
    records = list(numbered(2 * CHUNK))
    start = Barrier(2)

    def seed(some: list[Seed]) -> int:
        start.wait()
        return campaign.seed(some).added

    with ThreadPoolExecutor(2) as pool:
        added = list(pool.map(seed, [records, records[::-1]]))
    assert sum(added) == 2 * CHUNK
    assert_counts_are_true(postgres)


def test_campaigns_can_be_seeded_at_the_same_time(queue: Client, dsn: str) -> None:
    """A chunk that is under way holds up no other campaign."""
    first, second = queue.create_campaign("/a/one"), queue.create_campaign("/a/two")
    with psycopg.connect(dsn) as slow:
        slow.execute("select taskq.seed_begin(%s)", [first.campaign_id])
        assert second.seed(numbered(3)).added == 3


def test_seeded_tasks_are_claimed_while_seeding_goes_on(campaign: Campaign, hire: Hire) -> None:
    """From the first chunk on."""
    agent = hire()
    claimed: list[str] = []

    def on_progress(_: SeedCount) -> None:
        claimed.extend(task.key for task in agent.claim(1))

    campaign.seed(numbered(2 * CHUNK), on_progress=on_progress)
    assert claimed == ["000000", "000001"]


def test_sql_clients_submit_tasks_without_copy(campaign: Campaign, postgres: Postgres) -> None:
    """A few at a time; keys that are known, and those that come twice, add nothing."""
    campaign.seed([Seed({"n": 0}, "a")])

    def submit(*tasks: str) -> int:
        return int(value(postgres, "select taskq.submit('/c', %s)", f"[{','.join(tasks)}]"))

    known = '{"key": "a", "payload": {"n": 0}}'
    assert submit(known, '{"key": "b", "payload": {"n": 1}, "priority": 3}') == 1
    assert submit(*['{"key": "c", "payload": {"n": 2}}'] * 2) == 1
    assert submit() == 0
    assert [(view.key, view.payload, view.priority) for view in campaign.tasks()] == [
        ("a", {"n": 0}, 0),
        ("b", {"n": 1}, 3),
        ("c", {"n": 2}, 0),
    ]
    deep = (
        '{"key": "d", "payload": '
        + '{"a":' * (MAX_PAYLOAD_DEPTH - 1)
        + "%s"
        + "}" * MAX_PAYLOAD_DEPTH
    )
    with pytest.raises(psycopg.Error, match="nested more than 64 deep"):
        submit(known, deep % '{"a": []}')
    assert submit(deep % '{"a": 1}') == 1
    for bad in (
        '{"payload": {}}',
        '{"key": "d"}',
        '{"key": "", "payload": {}}',
        '{"key": "d", "payload": 1}',
    ):
        with pytest.raises(psycopg.IntegrityError):
            submit('{"key": "fine", "payload": {}}', bad)
    assert campaign.status().total == 4
    assert_counts_are_true(postgres)


@pytest.mark.thorough
@pytest.mark.usefixtures("campaign")
def test_memory_does_not_grow_with_the_number_of_tasks(command_line: CommandLine) -> None:
    """So a million tasks take less than 200 MB: three times as many take what fewer took.

    The fewer are several chunks: one chunk alone takes less, since no other is made next to it.
    """
    fewer, more = 8 * CHUNK, 24 * CHUNK
    few = outcome(start_seeder(command_line, fewer))
    many = outcome(start_seeder(command_line, more))
    assert (few[0], many[0]) == (fewer, more - fewer)
    assert many[1] < 200e6
    assert many[1] < few[1] + 16 * MIB


@pytest.mark.thorough
def test_memory_does_not_grow_with_the_size_of_payloads(campaign: Campaign) -> None:
    """Chunks are bounded by their size too."""
    sizes: list[int] = []
    payload = "x" * 60_000
    count = campaign.seed(
        (Seed({"n": n, "text": payload}) for n in range(300)),
        on_progress=lambda count: sizes.append(count.added),
    )
    assert count.added == 300
    chunks = [after - before for before, after in zip([0, *sizes], sizes)]  # noqa: B905 - one longer
    assert max(chunks) <= CHUNK_CHARS // len(payload) + 1


def test_nothing_to_seed_is_no_error(campaign: Campaign) -> None:
    """An empty file is an empty campaign."""
    assert campaign.seed([]).read == 0


def test_seed_of_a_database_that_refuses_a_chunk_keeps_those_before(
    campaign: Campaign, postgres: Postgres
) -> None:
    """Nothing of the refused chunk is half there."""
    postgres.execute(
        "alter table taskq.spec add constraint odd"
        f" check ((payload ->> 'n')::integer <> {CHUNK + 50})".encode()
    )
    with pytest.raises(UsageError, match="odd"):
        campaign.seed(numbered(CHUNK + 100))
    assert campaign.status().waiting == CHUNK
    assert value(postgres, "select count(*) from taskq.spec") == CHUNK
    assert_counts_are_true(postgres)


def test_single_task_is_submitted_once(campaign: Campaign, postgres: Postgres) -> None:
    """A key that is there already adds nothing, with or without a key of one's own."""
    assert len({campaign.submit({"n": 1}), campaign.submit({"n": 1})}) == 1
    assert [campaign.submit({"n": 2}, "'k' \"", 7) for _ in range(2)] == ["'k' \""] * 2
    (first, second) = campaign.tasks()
    assert (first.payload, first.priority) == ({"n": 1}, 0)
    assert (second.key, second.payload, second.priority) == ("'k' \"", {"n": 2}, 7)
    with pytest.raises(InvalidTask, match="JSON"):
        campaign.submit({"n": float("nan")})
    assert campaign.status().waiting == 2
    assert_counts_are_true(postgres)


def test_interrupted_seeding_does_not_wait_for_a_database_that_hangs(
    campaign: Campaign, postgres: Postgres, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is on its way is broken off after a while, and none of it is added."""
    monkeypatch.setattr("taskq.ingest.seeding.GRACE_S", 0.2)
    with psycopg.connect(dsn) as other:
        other.execute("select taskq.seed_begin(%s)", [campaign.campaign_id])
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            campaign.seed(interrupted(numbered(CHUNK + 100), CHUNK + 50, KeyboardInterrupt()))
        assert time.monotonic() - began < BUSY_S
    assert campaign.status().total == 0
    assert campaign.seed(numbered(3)).added == 3
    assert_counts_are_true(postgres)


def test_payload_that_contains_itself_is_no_task(campaign: Campaign) -> None:
    """It is reported, and nothing is added."""
    payload: dict[str, object] = {}
    payload["self"] = payload
    with pytest.raises(InvalidTask, match="nested too deep"):
        campaign.seed([payload])
    assert campaign.status().total == 0


def test_payload_that_no_agent_would_read_is_no_task(campaign: Campaign) -> None:
    """Agents refuse an answer that is nested too deep, with all that is in it."""
    deep: dict[str, object] = {"text": '\\"[[{'}
    for _ in range(MAX_PAYLOAD_DEPTH - 1):
        deep = {"text": ["[["], "in": deep}
    campaign.submit(deep)
    with pytest.raises(InvalidTask, match="nested more than 64 deep"):
        campaign.submit({"in": deep})
    with pytest.raises(InvalidTask, match="nested more than 64 deep"):
        campaign.seed([{"in": deep}])
    assert campaign.status().total == 1
