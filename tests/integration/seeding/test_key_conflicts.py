"""Another payload under a key that is known: refused, passed over or kept, and never dropped."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

import taskq
from taskq import Campaign, Seed
from taskq.ingest.key_conflicts import MAX_REPORTED_CLASHES, ON_CONFLICT
from taskq.model.errors import Clash, InvalidTask, KeyConflict, UsageError
from tests.fixtures.logins import Staff
from tests.helpers.postgres import Postgres, assert_counts_are_true, value

pytestmark = pytest.mark.both_transports

CHUNK = 60
APART = [0, CHUNK]
"""How many records lie between two: in one chunk, or in two."""


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let chunks be small, as they are of large payloads."""
    monkeypatch.setattr("taskq.ingest.seeding.CHUNK", CHUNK)


@pytest.fixture(params=["owner", "submitter"])
def theirs(request: pytest.FixtureRequest, staff: Staff) -> Iterator[Campaign]:
    """Give a campaign in the hands of its owner, who seeds by COPY, and of one who may not."""
    path = f"/{secrets.token_hex(6)}"
    mine = staff.owner.create_campaign(path)
    if request.param == "owner":
        yield mine
        return
    with taskq.connect(staff.login("submitter").dsn) as queue:
        yield queue.campaign(path)


def payloads(campaign: Campaign) -> dict[str, Any]:
    """Return the payloads of a campaign by key."""
    return {task.key: task.payload for task in campaign.tasks()}


def others(count: int) -> Iterator[Seed]:
    """Yield records whose keys nobody else uses."""
    return (Seed({"n": n}, f"{n:06d}") for n in range(count))


def refused(act: Callable[[], object]) -> KeyConflict:
    """Return the error that must come."""
    with pytest.raises(KeyConflict) as caught:
        act()
    return caught.value


@pytest.mark.parametrize("between", APART)
def test_another_payload_under_a_known_key_is_refused(between: int, theirs: Campaign) -> None:
    """With both payloads and the record's number; chunks before stay, and nothing of this one."""
    theirs.seed([Seed({"smiles": "C"}, "mol")])
    records = [*others(between), Seed({}, "new"), Seed({"smiles": "CC"}, "mol")]
    error = refused(lambda: theirs.seed(records))
    assert error.exit_code == 65
    assert isinstance(error, InvalidTask)
    assert (error.count, error.added) == (1, between)
    clash = Clash("mol", '{"smiles": "C"}', '{"smiles": "CC"}', between + 2)
    assert error.clashes == (clash,)
    for said in ("'mol'", '{"smiles": "C"}', '{"smiles": "CC"}', f"record at {between + 2}"):
        assert said in str(error)
    assert f"added so far: {between};" in str(error)
    assert theirs.status().waiting == between + 1
    again = theirs.seed(records, on_conflict="skip")
    assert (again.added, again.known, again.conflicts) == (1, between, 1)


@pytest.mark.parametrize("between", APART)
def test_records_of_one_seeding_that_share_a_key_are_compared(
    between: int, theirs: Campaign
) -> None:
    """In one chunk as in two; the same twice is no conflict."""
    some = list(others(between))
    twice = [Seed({"n": 1}, "a"), *some, Seed({"n": 1}, "a")]
    assert theirs.seed(twice).known == 1
    error = refused(lambda: theirs.seed([Seed({"n": 1}, "b"), *some, Seed({"n": 2}, "b")]))
    assert [(clash.key, clash.number) for clash in error.clashes] == [("b", between + 2)]
    assert (error.clashes[0].stored, error.clashes[0].offered) == ('{"n": 1}', '{"n": 2}')


ALIKE = [
    ('{"a": 1, "b": [2]}', '{"b":[2],"a":1}'),
    ('{"a": 1}', '{"a": 1.0}'),
    ('{"a": 100}', '{"a": 1e2}'),
    ('{"a": 0.1}', '{"a": 0.10}'),
    ('{"a": 1e23}', '{"a": 100000000000000000000000}'),
    ('{"a": [1e-7, 2.5e300]}', '{"a": [0.0000001, 25e299]}'),
    ('{"a": "é"}', '{"a": "\\u00e9"}'),
    ('{"a": "😀"}', '{"a": "\\ud83d\\ude00"}'),
    ('{"a": {"b": -0.0}}', '{"a": {"b": 0}}'),
]
UNLIKE = [
    ('{"a": 1}', '{"a": "1"}'),
    ('{"a": 1}', '{"a": true}'),
    ('{"a": [false]}', '{"a": [0.0]}'),
    ('{"a": null}', "{}"),
    ('{"a": [1, 2]}', '{"a": [2, 1]}'),
    ('{"a": 9007199254740993}', '{"a": 9007199254740992}'),
    ('{"a": "e\\u0301"}', '{"a": "é"}'),
    ('{"a": {}}', '{"a": []}'),
]


def test_same_payload_is_known_however_it_is_written(theirs: Campaign) -> None:
    """Order of names, ways to write a number or a character; not another type or order of a list.

    In one chunk, where it is there, and as a single task.
    """
    for number, (left, right) in enumerate([*ALIKE, *UNLIKE]):
        first, second = (Seed(json.loads(text), f"k{number}") for text in (left, right))
        alike = (left, right) in ALIKE
        for records, conflicts in (([first, second], 1), ([second], 1), ([first], 0)):
            count = theirs.seed(records, on_conflict="skip")
            expected = (0 if alike else conflicts, len(records) == 2)
            assert (count.conflicts, count.added) == expected, (left, right)
        assert theirs.add(second, on_conflict="skip") is False
        if alike:
            assert theirs.add(second) is False
            assert theirs.submit(second.payload, second.key) == second.key
        else:
            refused(lambda seed=second: theirs.submit(seed.payload, seed.key))


def test_another_payload_of_a_key_is_kept_under_a_numbered_key(theirs: Campaign) -> None:
    """An equal payload is kept once. 1 and true are not equal, whatever Python says."""
    for number, (left, right) in enumerate([*ALIKE, *UNLIKE]):
        key = f"k{number}"
        keys = [key, key if (left, right) in ALIKE else f"{key}#2"]
        for _ in range(2):
            kept = [
                theirs.submit(json.loads(text), key, on_conflict="keep-both")
                for text in (left, right)
            ]
            assert kept == keys, (left, right)


def test_sql_clients_compare_the_texts_that_they_send(postgres: Postgres) -> None:
    """Also those that no Python writes, as a number of many digits."""
    value(postgres, "select taskq.create_campaign('/c', '{}')")
    for number, (left, right) in enumerate([*ALIKE, *UNLIKE]):
        tasks = [f'[{{"key": "{number}", "payload": {text}}}]' for text in (left, right)]
        assert value(postgres, "select taskq.submit('/c', %s)", tasks[0]) == 1
        if (left, right) in ALIKE:
            assert value(postgres, "select taskq.submit('/c', %s)", tasks[1]) == 0
        else:
            with pytest.raises(psycopg.Error) as caught:
                value(postgres, "select taskq.submit('/c', %s)", tasks[1])
            assert caught.value.sqlstate == "TQ422"


def test_skipped_conflicts_are_counted_and_named(theirs: Campaign) -> None:
    """What is stored stays, and what goes with them is added."""
    theirs.seed([Seed({"n": 1}, "a")])
    clashes: list[Clash] = []
    records = [Seed({"n": 2}, "a"), Seed({"n": 1}, "b"), Seed({"n": 3}, "b"), Seed({"n": 1}, "a")]
    count = theirs.seed(records, on_conflict="skip", on_clash=clashes.append)
    assert (count.read, count.added, count.known, count.conflicts) == (4, 1, 1, 2)
    assert [(clash.key, clash.offered, clash.number) for clash in clashes] == [
        ("a", '{"n": 2}', 1),
        ("b", '{"n": 3}', 3),
    ]
    assert payloads(theirs) == {"a": {"n": 1}, "b": {"n": 1}}


@pytest.mark.parametrize("between", APART)
def test_conflicts_can_be_kept_under_numbered_keys(between: int, theirs: Campaign) -> None:
    """The second gets key#2, the third key#3, each payload once, however far apart."""
    some = list(others(between))
    records = [
        *(Seed({"n": n}, "a", priority=n) for n in (1, 2, 2)),
        *some,
        *(Seed({"n": n}, "a", priority=n) for n in (3, 1, 2, 4)),
        Seed({"n": 2}, "b"),
    ]
    clashes: list[Clash] = []
    count = theirs.seed(records, on_conflict="keep-both", on_clash=clashes.append)
    assert (count.added, count.known, count.conflicts) == (between + 5, 3, 3)
    kept = {key: row for key, row in payloads(theirs).items() if not key.isdigit()}
    assert kept == {
        "a": {"n": 1},
        "a#2": {"n": 2},
        "a#3": {"n": 3},
        "a#4": {"n": 4},
        "b": {"n": 2},
    }
    assert [theirs.task(key).priority for key in ("a", "a#2", "a#4")] == [1, 2, 4]
    assert [clash.offered for clash in clashes] == ['{"n": 2}', '{"n": 3}', '{"n": 4}']


def test_payloads_kept_under_numbered_keys_are_known_afterwards(
    theirs: Campaign, staff: Staff
) -> None:
    """Seeded again, in another order, in parts, one by one, with any choice."""
    records = [Seed({"n": n}, key) for n in range(4) for key in ("a", "b")]
    theirs.seed(records, on_conflict="keep-both")
    before = payloads(theirs)
    assert len(before) == 8
    for again in (records, records[::-1], records[5:]):
        for choice in ON_CONFLICT:
            count = theirs.seed(again, on_conflict=choice)
            assert (count.added, count.known, count.conflicts) == (0, len(again), 0)
    for record in records:
        assert theirs.add(record, on_conflict="keep-both") is False
        key = theirs.submit(record.payload, record.key, on_conflict="keep-both")
        assert key.partition("#")[0] == record.key
        assert theirs.task(key).payload == record.payload
    assert payloads(theirs) == before
    assert theirs.submit({"n": 9}, "a", 5, on_conflict="keep-both") == "a#5"
    assert theirs.task("a#5").payload == {"n": 9}
    with psycopg.connect(staff.owner.database.dsn, autocommit=True) as look:
        look.row_factory = psycopg.rows.dict_row
        assert_counts_are_true(look, theirs.path)


def test_keeping_both_goes_on_after_an_interruption(campaign: Campaign) -> None:
    """As after Ctrl-C: in the end each record is there once."""
    records = [Seed({"n": n}, f"{n % (CHUNK + 50):06d}") for n in range(5 * CHUNK)]

    def interrupted() -> Iterator[Seed]:
        yield from records[: 3 * CHUNK + 5]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        campaign.seed(interrupted(), on_conflict="keep-both")
    assert campaign.status().total == 3 * CHUNK
    count = campaign.seed(records, on_conflict="keep-both")
    assert (count.added, count.known, count.conflicts) == (2 * CHUNK, 3 * CHUNK, 2 * CHUNK)
    assert campaign.seed(records, on_conflict="keep-both").known == len(records)
    assert sorted(task.payload["n"] for task in campaign.tasks()) == list(range(len(records)))


def test_key_that_looks_numbered_is_passed_by(theirs: Campaign) -> None:
    """It keeps its task, and numbering goes on behind it; repeating adds nothing."""
    records = [
        *(Seed({"n": n}, "a") for n in (1, 2)),
        Seed({"n": 3}, "a#2"),
        Seed({"n": 4}, "a#4"),
        *(Seed({"n": n}, "a") for n in (5, 6, 7)),
    ]
    theirs.seed(records, on_conflict="keep-both")
    kept = payloads(theirs)
    assert sorted(row["n"] for row in kept.values()) == [1, 2, 3, 4, 5, 6, 7]
    assert (kept["a#2"], kept["a#4"]) == ({"n": 3}, {"n": 4})
    for again in (records, records[::-1]):
        assert theirs.seed(again, on_conflict="keep-both").known == 7
    assert payloads(theirs) == kept


def test_thousand_payloads_of_one_key_are_numbered_in_order(
    theirs: Campaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a column is the key that all rows share; in one statement for each chunk."""
    monkeypatch.setattr("taskq.ingest.seeding.CHUNK", 700)
    records = [Seed({"n": n}, "same") for n in range(1, 1_501)]
    assert theirs.seed(records, on_conflict="keep-both").added == 1_500
    assert theirs.task("same#1500").payload == {"n": 1_500}
    assert theirs.seed(records, on_conflict="keep-both").known == 1_500


def test_key_without_room_for_a_number_is_refused(theirs: Campaign) -> None:
    """Nothing is cut off keys, which could make one of two."""
    key = "k" * 254
    theirs.seed([Seed({"n": 1}, key)])
    error = refused(lambda: theirs.seed([Seed({"n": 2}, key)], on_conflict="keep-both"))
    assert "too long for a number" in str(error)
    assert theirs.status().total == 1


def test_of_very_many_conflicts_all_are_counted_and_some_named(campaign: Campaign) -> None:
    """Chunks of nothing else; no chunk grows with repeated keys."""
    many = 3 * CHUNK + 17
    assert many > MAX_REPORTED_CLASHES > CHUNK
    assert campaign.seed(Seed({"n": n}, f"{n}") for n in range(many)).added == many
    clashes: list[Clash] = []
    count = campaign.seed(
        (Seed({"m": n}, f"{n}") for n in range(many)), on_conflict="skip", on_clash=clashes.append
    )
    assert (count.read, count.added, count.known, count.conflicts) == (many, 0, 0, many)
    assert [clash.number for clash in clashes] == list(range(1, MAX_REPORTED_CLASHES + 1))
    progress: list[int] = []
    count = campaign.seed(
        (Seed({"m": n}, "0") for n in range(many)),
        on_conflict="skip",
        on_progress=lambda so_far: progress.append(so_far.read),
    )
    assert (count.conflicts, progress[0]) == (many, CHUNK)
    error = refused(lambda: campaign.seed(Seed({"m": n}, f"{n}") for n in range(many)))
    assert (error.count, len(error.clashes)) == (CHUNK, CHUNK)
    assert len(str(error)) < 2_000


def test_named_payloads_are_short_and_show_where_they_differ(theirs: Campaign) -> None:
    """Nothing in them is obeyed by a terminal, in keys neither."""
    same = "x" * 30_000
    theirs.seed([Seed({"text": f"{same}1{same}"}, "long"), Seed({}, "[2J\u202e")])
    clashes: list[Clash] = []
    offered = [
        Seed({"text": f"{same}2{same}"}, "long"),
        Seed({"t": "\x1b[31m\x07\x9b\u202e\u2028\n" * 40}, "[2J\u202e"),
    ]
    theirs.seed(offered, on_conflict="skip", on_clash=clashes.append)
    assert "x1x" in clashes[0].stored
    assert "x2x" in clashes[0].offered
    for clash in clashes:
        for text in (clash.stored, clash.offered):
            assert len(text) <= 200
            assert text.isprintable()
    error = refused(lambda: theirs.seed(offered[1:]))
    assert str(error).isprintable()
    assert error.clashes[0].key == "[2J\u202e"


def test_payload_of_many_megabytes_can_be_in_conflict(
    campaign: Campaign, postgres: Postgres
) -> None:
    """As the owner may store it: the answer stays small."""
    campaign.seed([Seed({"t": "x"}, "big")])
    postgres.execute(
        "update taskq.spec set payload = jsonb_build_object('t', repeat('x', 20000000))"
    )
    error = refused(lambda: campaign.seed([Seed({"t": "x" * 60_000}, "big")]))
    assert len(error.clashes[0].stored) <= 200


def test_sql_clients_choose_what_becomes_of_conflicts(
    campaign: Campaign, postgres: Postgres
) -> None:
    """By a third argument of `submit`; without it nothing of the call is added."""

    def submit(choice: str, *tasks: tuple[str, int]) -> Any:
        said = json.dumps([{"key": key, "payload": {"n": n}} for key, n in tasks])
        return value(postgres, "select taskq.submit('/c', %s, %s)", said, choice)

    assert submit("fail", ("a", 1), ("a", 1)) == 1
    with pytest.raises(psycopg.Error, match="another payload") as caught:
        submit("fail", ("new", 1), ("a", 2))
    assert caught.value.sqlstate == "TQ422"
    assert json.loads(caught.value.diag.message_detail or "")["named"] == [
        {"place": 2, "key": "a", "stored": '{"n": 1}', "offered": '{"n": 2}'}
    ]
    assert submit("skip", ("new", 1), ("a", 2)) == 1
    assert submit("keep-both", ("a", 2), ("a", 3), ("a", 2)) == 2
    assert submit("keep-both", ("a", 2), ("a", 3), ("a", 2)) == 0
    assert payloads(campaign).keys() == {"a", "new", "a#2", "a#3"}
    with pytest.raises(psycopg.Error, match="'fail', 'skip' or 'keep-both'"):
        submit("overwrite", ("a", 2))
    assert_counts_are_true(postgres)


def test_unknown_choice_for_conflicts_is_refused_before_anything_is_read(
    campaign: Campaign,
) -> None:
    """Before anything is read."""
    both: Any = "both"
    for act in (
        lambda: campaign.seed([{}], on_conflict=both),
        lambda: campaign.submit({}, on_conflict=both),
    ):
        with pytest.raises(UsageError, match="'fail', 'skip' or 'keep-both', not 'both'"):
            act()
    assert campaign.status().total == 0


def test_single_task_in_conflict_is_refused(campaign: Campaign) -> None:
    """With both payloads."""
    assert campaign.submit({"n": 1}, "a") == "a"
    error = refused(lambda: campaign.submit({"n": 2}, "a"))
    assert (error.count, error.clashes) == (1, (Clash("a", '{"n": 1}', '{"n": 2}', 1),))
    assert "'a'" in str(error)
    assert campaign.submit({"n": 2}, "a", on_conflict="skip") == "a"
    assert campaign.task("a").payload == {"n": 1}
