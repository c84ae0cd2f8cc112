"""Jobs of batch systems that end while others begin elsewhere: no slot is missing then."""

from __future__ import annotations

import pytest

from taskq import Campaign, Client
from taskq.diagnosis.reasons import Reason
from tests.fixtures.queues import Hire
from tests.helpers.postgres import Postgres
from tests.integration.explaining.support import Make, explained

PILOTS, SLOTS, JOB_MINUTES, JOBS = 6, 3, 20, 6

#: Each of six pilots has had six jobs of twenty minutes, each on another host; the last ones run.
_JOBS = """
    insert into taskq.session (
           key, campaign_id, opened_at, heartbeat_at, lease_s, ended_at, expired, slots, pid,
           agent, host, site, release, left_why)
    select gen_random_uuid(), c.campaign_id, n.opened_at, coalesce(n.ended_at, now()), 60,
           n.ended_at, %(expired)s and n.ended_at is not null, %(slots)s, 1,
           format(%(name)s, p, j), format('n%%s-%%s', p, j), 'aare', '',
           case when not %(expired)s then 'the batch job ends' end
      from taskq.campaign c, generate_series(1, %(pilots)s) p, generate_series(1, %(jobs)s) j
     cross join lateral (
         select b.at as opened_at,
                case when j < %(jobs)s
                     then b.at + make_interval(mins => %(minutes)s, secs => %(early)s)
                end as ended_at
           from (select now() - make_interval(mins => %(minutes)s) * (%(jobs)s - j + 0.9)
                        - make_interval(secs => 20 * p) as at) b
     ) n
     where c.path = '/c'
"""


def jobs(
    postgres: Postgres,
    *,
    name: str = "taskq-p%s-0123abcd-%s",
    expired: bool = False,
    early: int = 60,
) -> None:
    """Have the pilots' jobs of two hours. early: seconds that a job begins before the last ends."""
    known = {"pilots": PILOTS, "slots": SLOTS, "jobs": JOBS, "minutes": JOB_MINUTES}
    postgres.execute(_JOBS, {**known, "name": name, "expired": expired, "early": early})


def lost(campaign: Campaign) -> list[Reason]:
    return [reason for reason in explained(campaign).reasons if reason.code == "capacity-lost"]


@pytest.fixture
def campaign(make: Make, hire: Hire) -> Campaign:
    """Give a campaign with waiting tasks."""
    found = make("/c", tasks=400)
    hire("/c", host="n0").claim()
    return found


def end(postgres: Postgres, host: str, minutes: int) -> None:
    postgres.execute(
        "update taskq.session set ended_at = now() - make_interval(mins => %s),"
        " left_why = 'stopped' where host = %s",
        [minutes, host],
    )


@pytest.mark.parametrize("name", ["taskq-p%s-0123abcd-%s", "worker"])
@pytest.mark.parametrize("expired", [False, True])
def test_slots_that_come_again_elsewhere_are_not_lost(
    campaign: Campaign, queue: Client, postgres: Postgres, name: str, expired: bool
) -> None:
    """Neither if the batch system kills the agents, nor without pilots of the queue."""
    name = name if "%s" in name else f"{name}-%s.%s"
    jobs(postgres, name=name, expired=expired)
    assert lost(campaign) == []
    assert not [place.name for place in queue.fleet.hosts("/c") if place.gone]


def test_pilot_that_does_not_come_again_is_missing(campaign: Campaign, postgres: Postgres) -> None:
    """Its three slots, at the host of its last job; the earlier ones were replaced."""
    jobs(postgres)
    end(postgres, f"n2-{JOBS}", 9)
    assert lost(campaign) == [], "the next job may still be submitted"
    end(postgres, f"n2-{JOBS}", 12)
    (reason,) = lost(campaign)
    assert reason.text.startswith(f"3 of 19 slots of today are gone: the agents of host n2-{JOBS} ")


def test_pilot_whose_next_job_waits_is_not_missing(campaign: Campaign, postgres: Postgres) -> None:
    """The batch system has it; what it waits for is shown with the pilot."""
    jobs(postgres)
    end(postgres, f"n2-{JOBS}", 12)
    postgres.execute(
        "insert into taskq.pilot (name, key, path, driver, settings)"
        " values ('p2', '0123abcd', '/c', 'slurm', '{}')"
    )
    assert len(lost(campaign)) == 1
    postgres.execute(
        "insert into taskq.pilot_job (pilot_id, number, name, status, began_at)"
        " select pilot_id, 7, 'taskq-p2-0123abcd-7', 'queued', now() from taskq.pilot"
    )
    assert lost(campaign) == []


def test_site_that_goes_is_missing_whatever_came_elsewhere(
    campaign: Campaign, postgres: Postgres
) -> None:
    """As many slots at another site are no replacement."""
    jobs(postgres, name="worker-%s.%s")
    for pilot in range(1, PILOTS + 1):
        end(postgres, f"n{pilot}-{JOBS}", 1)
    (reason,) = lost(campaign)
    assert reason.figures["slots"] == PILOTS * SLOTS
