"""The keeper: of many one acts, another takes over, and nothing is left undone."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Iterator

import pytest

from taskq import Campaign
from taskq.db.connections import Database
from taskq.db.translation import EMBEDDED
from taskq.upkeep.keeper import TERM_S, Keeper
from tests.fixtures.queues import Hire
from tests.helpers.meanwhile import meanwhile
from tests.helpers.plans import watched
from tests.helpers.postgres import Postgres, assert_counts_are_true, silence, statuses, value
from tests.helpers.waiting import wait_until


@pytest.fixture
def keepers(database: Database) -> Iterator[list[Keeper]]:
    """Give three keepers."""
    some = [Keeper(database) for _ in range(3)]
    yield some
    stopped = threading.Event()
    stopped.set()
    for keeper in some:
        keeper.run(stopped)


def end_term(postgres: Postgres) -> None:
    """Let the time run out for which somebody is the keeper."""
    postgres.execute("update taskq.keeper set until = clock_timestamp()")


def test_nobody_is_the_keeper_for_ever(database: Database, postgres: Postgres) -> None:
    """Nor the refiller: anyone who calls once and never again is replaced within an hour."""
    database.row("keep", holder=str(uuid.uuid4()), term_s=1e9)
    database.row("keep_front", holder=str(uuid.uuid4()), term_s=1e9, stocked="[]", look=False)
    latest = "select greatest(k.until, r.until) from taskq.keeper k, taskq.front_refiller r"
    assert value(postgres, f"select ({latest}) <= clock_timestamp() + interval '1 h'") is True


def test_one_round_does_all_the_upkeep(
    keepers: list[Keeper], campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """It expires sessions, promotes delayed tasks and folds counts."""
    campaign.seed({"n": n} for n in range(4))
    doomed, agent = hire(), hire()
    doomed.claim(2)
    for task in agent.claim(1):
        agent.fail(task)
    postgres.execute("update taskq.task set due_at = now() where status = 'delayed'")
    silence(postgres, doomed.session)
    done = keepers[0].round()
    assert (done.acting, done.lost, done.promoted) == (True, 2, 1)
    assert done.folded > 0
    assert set(statuses(postgres).values()) == {"waiting"}
    assert value(postgres, "select count(*) from taskq.delta where since is null") == 0
    assert_counts_are_true(postgres)


def test_of_several_keepers_one_acts(keepers: list[Keeper]) -> None:
    """The same one, as long as it calls."""
    first, *others = keepers
    for _ in range(3):
        assert first.round().acting
        assert not any(keeper.round().acting for keeper in others)


def test_another_keeper_takes_over_when_the_first_is_gone(
    keepers: list[Keeper], postgres: Postgres
) -> None:
    """Once its term has passed; should it come back, it stands by."""
    first, second, third = keepers
    assert first.round().acting
    end_term(postgres)
    assert second.round().acting
    assert not first.round().acting
    assert not third.round().acting


def test_keeper_that_is_late_goes_on_if_nobody_took_over(
    keepers: list[Keeper], postgres: Postgres
) -> None:
    """A term that ran out is no reason to stop."""
    first, second, _ = keepers
    assert first.round().acting
    end_term(postgres)
    assert first.round().acting
    assert not second.round().acting


def test_keepers_that_ask_at_the_same_moment_do_not_both_act(
    keepers: list[Keeper], database: Database
) -> None:
    """The second neither waits for the first nor takes its place."""
    with database.transaction() as slow:
        (row,) = slow.rows("keep", holder=str(uuid.uuid4()), term_s=TERM_S)
        assert row["acting"]
        assert not keepers[0].round().acting
    assert not keepers[0].round().acting
    assert not keepers[1].round().acting


def test_keeper_works_until_it_is_stopped(
    keepers: list[Keeper], campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """In a thread next to others; it ends within a round."""
    campaign.seed([{"n": 1}])
    doomed = hire()
    doomed.claim(1)
    silence(postgres, doomed.session)
    with meanwhile(keepers[0].run):
        wait_until(lambda: campaign.status().waiting == 1)


def test_running_keeper_waits_for_a_server_that_does_not_answer(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It warns once, with what starts the embedded server, and goes on trying."""
    monkeypatch.setattr("taskq.upkeep.keeper.TAKE_OVER_S", 0.01)
    keeper = Keeper(Database("host=/nonexistent dbname=none", server=EMBEDDED))
    with caplog.at_level(logging.DEBUG, "taskq.upkeep.keeper"), meanwhile(keeper.run) as (running,):
        wait_until(lambda: caplog.text.count("upkeep cannot be done now") > 2)
        assert running.is_alive()
    (warning,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert warning.getMessage().endswith("; `taskq up` starts it")


def test_task_left_by_an_ended_session_is_found_however_long_no_keeper_ran(
    keepers: list[Keeper], campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """A claim overtook the end of its session, then every keeper was away for days."""
    campaign.seed([{"n": 1}])
    agent = hire()
    agent.claim(1)
    assert keepers[0].round().acting
    postgres.execute(
        "update taskq.session set expired = true, ended_at = clock_timestamp() - interval '3 d'"
    )
    postgres.execute("update taskq.keeper set until = clock_timestamp() - interval '3 d'")
    assert keepers[1].round().lost == 1
    assert campaign.status().waiting == 1


def test_round_reads_few_of_the_sessions_that_have_ended(
    keepers: list[Keeper], campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """Of ten thousand none that ended more than seconds ago, and what they still have is found."""
    campaign.seed([{"n": 1}])
    agent = hire()
    agent.claim(1)
    assert keepers[0].round().acting
    postgres.execute("update taskq.session set ended_at = clock_timestamp() - interval '5 min'")
    postgres.execute(
        "insert into taskq.session (key, campaign_id, opened_at, heartbeat_at, lease_s, slots, pid,"
        " agent, host, site, release, ended_at)"
        " select gen_random_uuid(), 1, now(), now(), 60, 1, 1, '', '', '', '',"
        "        clock_timestamp() - n * interval '0.3 s' - interval '11 s'"
        "   from generate_series(1, 10000) n"
    )
    for since, met in (("clock_timestamp() - interval '10 s'", 0), ("'-infinity'", 1)):
        with watched(postgres) as seen:
            assert value(postgres, f"select taskq.expire({since})") == 0
        widest = seen.to("session", "task", "bundle").widest
        assert widest is not None
        assert widest.rows <= 1
        assert (campaign.status().waiting == 1) is (met == 1)


@pytest.mark.thorough
def test_round_finds_in_the_end_what_any_ended_session_has(
    keepers: list[Keeper], campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """Now and then a round looks at all that is in hand."""
    campaign.seed([{"n": 1}])
    hire().claim(1)
    assert keepers[0].round().acting
    postgres.execute("update taskq.session set ended_at = clock_timestamp() - interval '5 d'")

    def found() -> bool:
        keepers[0].round()
        return campaign.status().waiting == 1

    wait_until(found)


def test_term_of_a_keeper_from_the_future_is_not_believed(
    keepers: list[Keeper], campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """The clock was wrong, and has been set back by a day: who is silent from now on is lost."""
    campaign.seed([{"n": 1}])
    agent = hire()
    agent.claim(1)
    assert keepers[0].round().acting
    for column in ("keeper set until", "session set heartbeat_at", "serving set since"):
        postgres.execute(f"update taskq.{column} = clock_timestamp() + interval '1 d'")
    done = keepers[1].round()
    assert (done.acting, done.lost) == (True, 0)
    postgres.execute("update taskq.session set lease_s = 1")
    wait_until(lambda: keepers[1].round().lost == 1)
