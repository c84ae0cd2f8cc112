"""A logical publication of all tables, as blue/green upgrades and change data capture make one."""

from __future__ import annotations

import pytest

from taskq import Campaign
from tests.fixtures.queues import Hire
from tests.helpers.postgres import Postgres, expire, promote, silence, value

pytestmark = pytest.mark.usefixtures("true_counts")

_NAMELESS = """
    select c.relname
      from pg_class c
     where c.relnamespace = 'taskq'::regnamespace
       and c.relkind in ('r', 'p')
       and c.relreplident <> 'f'
       and not exists (select from pg_index i
                        where i.indrelid = c.oid
                          and case c.relreplident when 'd' then i.indisprimary
                                                  else i.indisreplident end)
"""


def test_rows_of_every_table_can_be_named_in_a_publication(postgres: Postgres) -> None:
    """One without a primary key says `replica identity full`, or nothing in it can be deleted."""
    assert postgres.execute(_NAMELESS).fetchall() == []


def test_upkeep_goes_on_under_a_publication_of_all_tables(
    campaign: Campaign, hire: Hire, postgres: Postgres
) -> None:
    """Tasks are done, fail, get lost, are retried and removed, and counts are folded."""
    postgres.execute("set client_min_messages = error")
    postgres.execute("create publication everything for all tables")
    campaign.seed({"n": n} for n in range(6))
    agent, silent = hire(), hire()
    done, failed = agent.claim(2)
    assert agent.done(done) == "accepted"
    assert agent.fail(failed) == "accepted"
    silent.claim(1)
    silence(postgres, silent.session)
    assert expire(postgres) == 1
    promote(postgres)
    campaign.cancel()
    assert value(postgres, "select taskq.fold('0 s')") > 0
    assert (campaign.status().done, campaign.status().cancelled) == (1, 5)
    campaign.remove()
