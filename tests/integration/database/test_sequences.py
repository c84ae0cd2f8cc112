"""Native logical replication: a publication of all tables, and copies with late sequences."""

from __future__ import annotations

import secrets

import pytest

from taskq import Campaign, Client
from taskq.dispatch.direct import DirectTransport
from taskq.model.errors import Unavailable
from taskq_agent.errors import TransportFailed
from taskq_agent.protocol import Hello
from tests.fixtures.queues import Hire
from tests.helpers.audit import assert_audit_is_clean
from tests.helpers.campaigns import servable
from tests.helpers.postgres import Postgres, expire, promote, silence, value

SEQUENCES = """
    select c.oid::regclass::text from pg_class c
     where c.relnamespace = 'taskq'::regnamespace and c.relkind = 'S'
"""


def fall_behind(postgres: Postgres) -> None:
    """Set all sequences back to where they begin, as in a copy."""
    for (name,) in [tuple(row.values()) for row in postgres.execute(SEQUENCES).fetchall()]:
        postgres.execute("select setval(%s, 1, false)", [name])


def finish(postgres: Postgres, tasks: int) -> None:
    """Do all tasks of /c."""
    (session,) = (
        postgres.execute("select taskq.open_session('/c', gen_random_uuid())").fetchone().values()
    )
    lease = "00000000-0000-7000-8000-000000000001"
    claimed = postgres.execute(
        "select task_id from taskq.claim('/c', %s, %s, %s)", [session, lease, tasks]
    ).fetchall()
    assert len(claimed) == tasks
    for row in claimed:
        postgres.execute("select taskq.complete('/c', %s, %s)", [row["task_id"], lease])


def hello() -> Hello:
    """Return what an agent says that comes."""
    return Hello(
        key=secrets.token_hex(16),
        campaign="/c",
        name="a",
        host="h",
        slots=1,
        pid=1,
        site="s",
        release="r",
    )


@pytest.mark.parametrize("tasks", [1, 40])
def test_seed_never_makes_done_tasks_wait_again(
    queue: Client, postgres: Postgres, tasks: int
) -> None:
    """Ids are drawn above all that are stored, whatever the sequence says."""
    servable(queue, "/earlier", 2 * tasks)  # so that the next ids are not taken in /c
    campaign = servable(queue, "/c", tasks)
    finish(postgres, tasks)
    servable(queue, "/d", tasks)
    fall_behind(postgres)
    campaign.seed({"n": n} for n in range(tasks, tasks + 5))
    status = campaign.status()
    assert (status.done, status.waiting) == (tasks, 5)
    postgres.execute('select taskq.submit(\'/c\', \'[{"key": "one", "payload": {}}]\')')
    assert campaign.status().waiting == 6
    ids = postgres.execute("select count(*) as n, count(distinct task_id) as d from taskq.spec")
    found = ids.fetchone()
    assert found is not None
    assert found["n"] == found["d"], "an id was drawn twice"
    assert_audit_is_clean(queue, "/")


def test_sequence_that_is_ahead_is_left_alone(queue: Client, postgres: Postgres) -> None:
    """Nothing is mended where nothing is behind, be there rows or not."""
    servable(queue, "/c", 3)
    assert list(postgres.execute(SEQUENCES)) != []
    for table in (None, "spec"):
        row = postgres.execute("select taskq.mend_sequences(%s) as mended", [table]).fetchone()
        assert row == {"mended": []}


@pytest.mark.parametrize("mend", ["recover", "keep"])
def test_campaigns_and_sessions_wait_until_ids_are_mended(
    queue: Client, postgres: Postgres, mend: str
) -> None:
    """The error says what mends it; an agent waits, for which it is no fault of its own."""
    servable(queue, "/c", 2)
    finish(postgres, 1)
    fall_behind(postgres)
    with pytest.raises(Unavailable, match="`taskq recover`"):
        queue.create_campaign("/new")
    transport = DirectTransport(queue.database)
    with pytest.raises(TransportFailed, match="draws ids that are taken"):
        transport.open(hello())
    if mend == "recover":
        queue.recover("/")
    else:
        for _ in range(200):  # it looks in one round of ten
            postgres.execute("select * from taskq.keep(gen_random_uuid(), -1)")
    assert queue.create_campaign("/new").status().waiting == 0
    welcome = transport.open(hello())
    transport.close(welcome.session)
    assert_audit_is_clean(queue, "/")


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


@pytest.mark.usefixtures("true_counts")
def test_rows_of_every_table_can_be_named_in_a_publication(postgres: Postgres) -> None:
    """One without a primary key says `replica identity full`, or nothing in it can be deleted."""
    assert postgres.execute(_NAMELESS).fetchall() == []


@pytest.mark.usefixtures("true_counts")
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
