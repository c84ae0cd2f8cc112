"""What campaigns used: sums of ended attempts, exact, and kept when these are removed."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime, timedelta, timezone

import psycopg
import pytest
from psycopg.rows import dict_row

from taskq import Campaign, CampaignSpec, Client, NotFound, UsageError, connect
from taskq.db.connections import Database
from taskq_agent.protocol import DONE, FAILED, RELEASED
from tests.fixtures.queues import Hire
from tests.helpers.campaigns import TRUE
from tests.helpers.postgres import KEEP, Postgres, expire, silence
from tests.helpers.scripted_agent import ScriptedAgent
from tests.helpers.usage import sum_up, summed_until, used, used_by_attempts
from tests.helpers.waiting import wait_until

HOUR = timedelta(hours=1)
#: As `add_usage.sql` says.
MOST_SITES = 64


def began(postgres: Postgres, ago: str) -> None:
    """Have all running attempts begin so long ago."""
    for table in ("task", "bundle"):
        postgres.execute(
            f"update taskq.{table} set claimed_at = claimed_at - %s::interval"  # noqa: S608
            " where claimed_at is not null",
            [ago],
        )


def test_core_hours_are_kept_apart_by_how_attempts_end(
    queue: Client, hire: Hire, postgres: Postgres
) -> None:
    """The payload's run time counts, by the cores that the agent offers a slot."""
    queue.create_campaign(CampaignSpec("/c", handler=TRUE)).seed([{"n": n} for n in range(9)])
    queue.owners.give("/c", "ada")
    agent = hire(site="north", offers=["cores=4"], slots=9)
    done, failed, released, cancelled, *_ = agent.claim_singly(5)
    began(postgres, "2 h")
    run = {"phases": {"run_s": 3600}}
    assert agent.report(done, DONE, **run) == "accepted"
    assert agent.report(failed, FAILED, error_class="Odd", **run) == "accepted"
    assert agent.report(released, RELEASED, error_class="out-of-time", **run) == "accepted"
    queue.campaign("/c").cancel(keys=[cancelled.key])
    silence(postgres, agent.session)
    expire(postgres)
    assert queue.usage("/c").lines == []
    sum_up(postgres)
    (all_of_it,) = queue.usage("/c").lines
    assert (all_of_it.owner, all_of_it.attempts, all_of_it.campaign) == ("ada", 5, None)
    of_hour = [all_of_it.done_core_s, all_of_it.failed_core_s, all_of_it.released_core_s]
    assert of_hour == [14_400.0, 14_400.0, 14_400.0]
    assert 28_800 <= all_of_it.cancelled_core_s < 29_200
    assert 28_800 <= all_of_it.lost_core_s < 29_200
    assert all_of_it.core_s == pytest.approx(4 * all_of_it.run_s)
    assert used(postgres) == used_by_attempts(postgres)
    assert list(queue.audit()) == []


def test_gpu_hours_are_those_that_tasks_need(queue: Client, hire: Hire, postgres: Postgres) -> None:
    """A share of a GPU as much less; kept while hours become months, and when tasks go."""
    for path, gpus in (("/whole", 2), ("/share", 0.25), ("/none", None)):
        spec = CampaignSpec(path, handler=TRUE, gpus=gpus)
        queue.create_campaign(spec).seed([{"n": 1}, {"n": 2}])
        agent = hire(path, offers=["gpus=2", "cores=2", "protocol=2"])
        done, failed = agent.claim_singly(2)
        began(postgres, "2 h")
        assert agent.report(done, DONE, phases={"run_s": 3600}) == "accepted"
        assert agent.report(failed, FAILED, phases={"run_s": 1800}) == "accepted"
    sum_up(postgres)
    for life in ("whole", "thinned", "removed"):
        lines = {line.campaign: line for line in queue.usage(per=["campaign"]).lines}
        assert {path: line.gpu_s for path, line in lines.items()} == {
            "/whole": 2 * 5400,
            "/share": 0.25 * 5400,
            "/none": 0,
        }, life
        assert {line.core_s for line in lines.values()} == {2 * 5400}
        if life == "whole":
            later = datetime.now(timezone.utc) + timedelta(days=300)
            for _ in range(2):
                postgres.execute("select taskq.thin_usage(%s)", [later])
        elif life == "thinned":
            for path in lines:
                queue.campaign(path).cancel()
                queue.campaign(path).remove()


def test_run_time_that_an_agent_invents_does_not_count(
    agent: ScriptedAgent, postgres: Postgres
) -> None:
    """Never more than from claim to end, and never less than nothing."""
    first, second = agent.claim_singly(2)
    began(postgres, "10 s")
    agent.report(first, DONE, phases={"run_s": 1e300})
    agent.report(second, DONE, phases={"run_s": -5})
    sum_up(postgres)
    ((attempts, run_ms),) = used(postgres).values()
    assert attempts == 2
    assert 10_000 <= run_ms < 100_000


def test_tasks_that_wait_at_a_lost_agent_use_no_more_than_its_slots(
    queue: Client, hire: Hire, postgres: Postgres
) -> None:
    """Of a claim of a hundred, two ran at a time; the rest waited. The same if it is cancelled."""
    for path, ends in (("/lost", "lost"), ("/cancelled", "cancelled")):
        campaign = queue.create_campaign(CampaignSpec(path, handler=TRUE))
        campaign.seed([{"n": n} for n in range(100)])
        agent = hire(path, slots=2)
        assert len(agent.claim(100)) == 100
        began(postgres, "1000 s")
        if ends == "lost":
            silence(postgres, agent.session)
            assert expire(postgres) == 100
        else:
            campaign.cancel()
        sum_up(postgres)
        (line,) = queue.usage(path, per=["end"]).lines
        assert (line.end, line.attempts) == (ends, 100)
        assert 1_990 <= line.run_s < 3_000
    assert list(queue.audit()) == []


def test_usage_is_kept_when_tasks_and_campaigns_are_removed(
    queue: Client, hire: Hire, postgres: Postgres
) -> None:
    """Also of attempts that were not summed yet, and of a campaign that is made again."""
    for life, summed in enumerate((True, False), 1):
        campaign = queue.create_campaign(CampaignSpec("/a/b", handler=TRUE))
        campaign.seed([{"n": n} for n in range(8)])
        agent = hire("/a/b")
        for task in agent.claim(4):
            agent.done(task)
        if summed:
            sum_up(postgres)
        campaign.cancel()
        assert queue.campaign("/a/b").remove() == 8
        sum_up(postgres)
        (line,) = queue.usage("/a", per=["campaign"]).lines
        assert (line.campaign, line.attempts) == ("/a/b", 4 * life)
        assert list(queue.audit()) == []
    queue.campaign("/a").remove()
    assert [line.attempts for line in queue.usage("/a").lines] == [8]
    with pytest.raises(NotFound):
        queue.usage("/a/c")


def test_campaign_that_goes_on_after_a_removal_was_begun_is_still_exact(
    campaign: Campaign, agent: ScriptedAgent, queue: Client, postgres: Postgres
) -> None:
    """Its sums have what is gone, and what came since."""
    agent.done(agent.claim()[0])
    sum_up(postgres)
    for n in (7, 8):
        campaign.cancel()
        postgres.execute("select taskq.remove_tasks(%s, 0, 1)", [campaign.campaign_id])
        campaign.resume()
        campaign.seed([{"n": n}])
        fresh = ScriptedAgent(agent.database)
        fresh.done(fresh.claim()[0])
        fresh.close()
        sum_up(postgres)
    assert used(postgres)["done"][0] == 3
    assert list(queue.audit()) == []


@pytest.mark.parametrize("summed", [True, False])
def test_late_success_moves_what_a_loss_used(
    queue: Client, hire: Hire, postgres: Postgres, summed: bool
) -> None:
    """Whether the loss was summed or not, the attempt counts once: as done."""
    spec = CampaignSpec("/c", handler=TRUE, late_results="salvage")
    queue.create_campaign(spec).seed([{"n": 1}])
    agent = hire()
    (task,) = agent.claim()
    silence(postgres, agent.session)
    assert expire(postgres) == 1
    if summed:
        sum_up(postgres)
        assert [*used(postgres)] == ["lost"]
    assert agent.done(task) == "accepted"
    if summed:
        assert used(postgres) == {}
    sum_up(postgres)
    assert {end: attempts for end, (attempts, _) in used(postgres).items()} == {"done": 1}
    assert used(postgres) == used_by_attempts(postgres)
    assert list(queue.audit()) == []


def test_attempts_of_a_transaction_that_is_still_open_are_waited_for(
    queue: Client, hire: Hire, dsn: str, postgres: Postgres
) -> None:
    """What commits late has ended before; nothing that ended after it is summed until then."""
    queue.create_campaign(CampaignSpec("/c", handler=TRUE)).seed([{"n": n} for n in range(3)])
    agent = hire()
    first, second = agent.claim_singly(2)

    with psycopg.connect(dsn) as slow:
        report = f'[{{"task": {first.task}, "lease": "{first.lease}", "outcome": "done"}}]'
        slow.execute(
            "select * from taskq.exchange_one(%s, %s, %s, null)",
            [agent.campaign, report, agent.session],
        )
        ended = slow.execute("select ended_at from taskq.attempt").fetchone()
        assert ended is not None
        assert agent.done(second) == "accepted"
        # Whatever time goes by: only how it got its number counts.
        for _ in range(3):
            postgres.execute("update taskq.summed set next_at = next_at + interval '1 s'")
            assert summed_until(postgres) <= ended[0]
        assert used(postgres) == {}
        slow.commit()
    wait_until(lambda: summed_until(postgres) > ended[0], timeout_s=120)
    sum_up(postgres)
    assert used(postgres) == used_by_attempts(postgres)
    assert used(postgres)["done"][0] == 2


class Busy:
    """Threads that work on campaigns, sum what has ended, and die, until `ended`."""

    def __init__(self, dsn: str, database: Database) -> None:
        self.ended = threading.Event()
        self.removed = 0
        self._dsn, self._database = dsn, database

    def report(self, number: int) -> None:
        """Report what agents did, also of sessions that have ended."""
        draw = random.Random(number)
        while not self.ended.is_set():
            agent = ScriptedAgent(self._database, "/k/a", slots=50, site=f"s{draw.randint(1, 3)}")
            tasks = agent.claim(draw.randint(1, 20))
            if draw.random() < 0.3:
                with psycopg.connect(self._dsn, autocommit=True, row_factory=dict_row) as near:
                    silence(near, agent.session)
                    expire(near)
            for task in tasks:
                agent.report(task, DONE if draw.random() < 0.7 else FAILED, error_class="Odd")
            agent.close()

    def remove(self) -> None:
        """Have campaigns come and go."""
        with connect(self._dsn) as client:
            while not self.ended.is_set():
                campaign = client.create_campaign(CampaignSpec("/k/b/c", handler=TRUE))
                campaign.seed([{"n": n} for n in range(5)])
                agent = ScriptedAgent(self._database, "/k/b/c")
                for task in agent.claim(3):
                    agent.done(task)
                agent.close()
                self.removed += 3
                campaign.cancel()
                campaign.remove()

    def sum_and_die(self, number: int) -> None:
        """Sum, and lose half of the sums before they are committed."""
        draw = random.Random(number)
        while not self.ended.is_set():
            with suppress(psycopg.OperationalError), psycopg.connect(self._dsn) as doomed:
                doomed.execute("select taskq.sum_ends(0.1)")
                if draw.random() < 0.5:
                    doomed.execute("select pg_terminate_backend(pg_backend_pid())")


@pytest.mark.thorough
def test_sums_are_exact_while_attempts_end_and_sums_are_killed(
    queue: Client, dsn: str, database: Database, postgres: Postgres
) -> None:
    """Reports, losses, late results, removals and sums at once; sessions of the server die."""
    spec = CampaignSpec("/k/a", handler=TRUE, late_results="salvage")
    queue.create_campaign(spec).seed([{"n": n} for n in range(9_000)])
    queue.create_campaign(CampaignSpec("/k/b", handler=TRUE))
    busy = Busy(dsn, database)
    with ThreadPoolExecutor(5) as pool:
        works = [pool.submit(busy.report, number) for number in range(2)]
        works += [pool.submit(busy.sum_and_die, number) for number in range(2)]
        works.append(pool.submit(busy.remove))
        try:
            wait_until(
                lambda: (
                    used(postgres).get("done", (0, 0))[0] > 100
                    or any(work.done() for work in works)
                ),
                timeout_s=120,
            )
        finally:
            busy.ended.set()
        for work in works:
            work.result()
    sum_up(postgres)
    assert used(postgres, "/k/a") == used_by_attempts(postgres, "/k/a")
    assert used(postgres, "/k/b")["done"][0] == busy.removed
    assert list(queue.audit()) == []


@pytest.mark.thorough
def test_hours_become_days_and_days_become_months(
    agent: ScriptedAgent, queue: Client, postgres: Postgres
) -> None:
    """The totals stay, and the audit agrees."""
    agent.done(agent.claim()[0])
    sum_up(postgres)
    start = datetime.now(timezone.utc).replace(day=3, hour=5, minute=0, second=0, microsecond=0)
    start -= timedelta(days=70)
    postgres.execute("update taskq.usage set since = %s", [start])
    before = queue.usage(per=["campaign"]).lines
    grains = []
    for days in (0, 10, 200):
        postgres.execute("select taskq.thin_usage(%s)", [start + timedelta(days=days)])
        rows = postgres.execute("select grain, since from taskq.usage").fetchall()
        grains += [(row["grain"], row["since"]) for row in rows]
        assert queue.usage(per=["campaign"]).lines == before
    day = start.replace(hour=0)
    assert grains == [("hour", start), ("day", day), ("month", day.replace(day=1))]
    assert [line.starts for line in queue.usage(per=["month"]).lines] == [day.replace(day=1)]
    assert list(queue.audit()) == []


def test_usage_since_a_time_has_whole_hours(
    agent: ScriptedAgent, queue: Client, postgres: Postgres
) -> None:
    """The hour that has the time counts; older ones do not."""
    agent.done(agent.claim()[0])
    sum_up(postgres)
    row = postgres.execute("select since from taskq.usage").fetchone()
    assert row is not None
    hour = row["since"]
    assert len(queue.usage(since=hour + HOUR / 2).lines) == 1
    assert queue.usage(since=hour + HOUR).lines == []


@pytest.mark.thorough
def test_sites_that_agents_invent_are_bounded(
    campaign: Campaign, hire: Hire, queue: Client, postgres: Postgres
) -> None:
    """Beyond 64 in an hour they count as others; nothing is lost."""
    agents = [hire(site=f"site{number:02}") for number in range(80)]
    for some in (agents[:10], agents[10:70], agents[70:], agents):
        postgres.execute(
            "select taskq.add_usage(array("
            "    select (%s, s.id, '2026-11-29T10:00:00Z', 'done', 'none', 1, 1000, 0, 0, 0, 0, 0,"
            "            null, null, null, null)::taskq.ends"
            "      from unnest(%s::bigint[]) as s (id)))",
            [campaign.campaign_id, [agent.session for agent in some]],
        )
    sites = {line.site: line.attempts for line in queue.usage(per=["site"]).lines}
    assert sum(sites.values()) == 160
    assert MOST_SITES - 1 <= len(sites) <= MOST_SITES
    assert sites["others"] >= 2 * (80 - MOST_SITES)


def test_keeper_sums_what_has_ended(agent: ScriptedAgent, postgres: Postgres) -> None:
    """Nobody has to ask for it."""
    agent.done(agent.claim()[0])

    def summed() -> bool:
        postgres.execute(KEEP)
        return used(postgres) == used_by_attempts(postgres)

    wait_until(summed, timeout_s=60)


def test_audit_finds_sums_that_are_wrong(
    campaign: Campaign, agent: ScriptedAgent, queue: Client, postgres: Postgres
) -> None:
    """It names the end, and both figures."""
    agent.done(agent.claim()[0])
    sum_up(postgres)
    postgres.execute("update taskq.usage set attempts = 7")
    (violation,) = queue.audit()
    assert (violation.campaign, violation.check) == (campaign.path, "usage")
    assert "7 attempts that ended as done are summed" in violation.text


def test_usage_is_asked_for_by_what_it_is_kept_by(queue: Client) -> None:
    """Anything else is refused, with what there is."""
    with pytest.raises(UsageError, match="owner, campaign, site"):
        queue.usage(per=["colour"])  # type: ignore[list-item]
    with pytest.raises(UsageError, match="not both"):
        queue.usage(per=["day", "month"])
