"""Plans: every verb reaches tasks by a key or a fitting index, whatever the statistics say.

Most rows of `task` change their status minutes after they were analysed. So the plans are looked
at as the server executes them inside the shipped functions, beside 20,000 working and 5,000
waiting tasks, with statistics that are true, out of date, or missing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from taskq import Campaign
from taskq.db.queries import statement
from tests.fixtures.queues import Hire
from tests.helpers.plans import watched
from tests.helpers.postgres import Postgres, promote, silence, value
from tests.helpers.scripted_agent import Claimed, ScriptedAgent, report_of

pytestmark = pytest.mark.thorough


class Load:
    """The verbs, spoken on one connection, beside many tasks in the hands of one agent."""

    def __init__(self, connection: Postgres, postgres: Postgres, campaign: int, hire: Hire) -> None:
        self.connection = connection
        self._postgres = postgres
        self._hire = hire
        self._agent = hire()
        self._campaign = campaign
        self._tasks: Iterator[Claimed] = iter(())

    def grow(
        self, working: int, waiting: int, *, unpacked: bool = False, analyze: str = ""
    ) -> None:
        """Add tasks and claim some; bring the statistics up to date once `seeded` or `claimed`.

        unpacked: each with a row of its own, as after trouble.
        """
        with self._postgres.transaction():
            above = value(self._postgres, "select taskq.seed_begin(%s)", self._campaign)
            self._postgres.execute(
                "insert into taskq.spec (campaign_id, key, payload)"
                " select %s, gen_random_uuid()::text, '{}' from generate_series(1, %s)",
                [self._campaign, working + waiting],
            )
            self._postgres.execute("select taskq.seed_end(%s, %s)", [self._campaign, above])
            if unpacked:
                unspan = "select taskq.unspan(%s, null, 0, %s)"
                self._postgres.execute(unspan, [self._campaign, 100_000])
        if analyze == "seeded":
            self._postgres.execute("analyze")
        mine: list[Claimed] = []
        while len(mine) < working:
            mine += self._agent.claim(min(1_000, working - len(mine)))
        if unpacked:
            held = [task.task for task in mine]
            self._postgres.execute("select taskq.unpack(%s, %s)", [self._campaign, held])
        if analyze == "claimed":
            self._postgres.execute("analyze")
        self._tasks = iter(mine[1::2] + mine[::2])

    def draw_no_fold(self) -> None:
        """See to it that the next exchange is not the one in a thousand that folds the counts."""
        self.connection.execute("select setseed(0.5)")

    def exchange(self, outcome: str, count: int = 1) -> None:
        """Report so many tasks and claim as many."""
        reports = [report_of(next(self._tasks), outcome) for _ in range(count)]
        self._exchange(self._agent, reports, "accepted")

    def refuse(self) -> None:
        """Hand a task back because no such task can be run."""
        report = report_of(next(self._tasks), "released", refused=True, error_class="unfit")
        self._exchange(self._agent, [report], "accepted")

    def repeat_report(self) -> None:
        """Report what was reported before."""
        again = [report_of(next(self._tasks), "done")]
        self._agent.exchange(again)
        self._exchange(self._agent, again, "duplicate")

    def report_for_another(self) -> None:
        """Report what another session of the same token has, and what one of another token has."""
        heir, stranger = self._hire(), self._hire()
        sessions = [self._agent.session, heir.session, stranger.session]
        self._postgres.execute(
            "update taskq.session"
            "   set token_id = 1 + (session_id = %s)::integer,"
            "       token_hash = sha256(key::text::bytea)"
            " where session_id = any (%s)",
            [stranger.session, sessions],
        )
        report = report_of(next(self._tasks), "done")
        self._exchange(stranger, [report | {"session": stranger.session}], "unknown")
        self._exchange(heir, [report | {"session": heir.session}], "accepted")

    def identify(self) -> None:
        """Look up the tokens of a session and of nobody."""
        hashes = self._postgres.execute("""
            select array_agg(s.token_hash) || sha256('') as hashes
              from (select token_hash from taskq.session where token_hash is not null limit 1) s
        """).fetchone()
        assert hashes is not None
        self._say("identify", **hashes)

    def settle_many(self) -> None:
        """Report on one's own, on tasks that are none, and on campaigns that are none."""
        own = [report_of(next(self._tasks), "done") for _ in range(2)]
        none = [report | {"task": 10**9 + n} for n, report in enumerate(own)]
        (answer,) = self._say(
            "settle_many",
            campaigns=[self._campaign, self._campaign, 10**9, 10**9 + 1, self._campaign],
            reports=json.dumps([*own, *none, none[0]]),
        )
        assert answer["acks"] == ["accepted"] * 2 + ["unknown"] * 3

    def repeat_claim(self) -> None:
        """Ask again for a claim."""
        agent = self._hire()
        lease = agent.draw_lease()
        before = agent.claim(2, lease=lease)
        assert self._exchange(agent, [], "", lease=lease, want=2) == before

    def beat(self) -> None:
        """Name two of three tasks, so that one is handed on, and one whose lease is void."""
        agent = self._hire()
        held = agent.claim(3)
        agent.done(held[0])
        said = {
            "session": agent.session,
            "held": [(one.campaign, one.task, one.lease) for one in held[:2]],
            "pending": [],
            "drawn": agent.drawn,
        }
        (told,) = self._say("beat", beats=json.dumps([said]))
        assert [task for _, task, _ in told["stop"]] == [held[0].task]

    def salvage(self) -> None:
        """Name an attempt that was lost in a beat, and report its success while another works."""
        self._change(late_results="salvage", max_lost_nodes=1_000)
        late, heir = self._lost(), self._hire()
        assert heir.claim(1)[0].task == late.task
        beat = {"session": heir.session, "pending": [], "drawn": None}
        held = [(late.campaign, late.task, late.lease)]
        assert self._say("beat", beats=json.dumps([beat | {"held": held}])) == []
        reports = [report_of(one, "done") for one in (late, next(self._tasks))]
        self._exchange(heir, reports, "accepted")
        self._change(late_results="reject")

    def poison(self) -> None:
        """Lose the agent of a task that is poison then, and give it another chance."""
        self._change(max_lost_nodes=1)
        late = self._lost()
        only = {"campaign": self._campaign, "tasks": [late.task], "after": 0, "limit": 10}
        (answer,) = self._say("retry", **only, status="failed", error_class="poison")
        assert answer["moved"] == 1

    def _lost(self) -> Claimed:
        agent = self._hire()
        (task,) = agent.claim(1)
        silence(self._postgres, agent.session)
        assert value(self.connection, "select taskq.expire(clock_timestamp())") == 1
        return task

    def _change(self, **settings: object) -> None:
        body = json.dumps(settings)
        assert value(self._postgres, "select taskq.change_campaign('/c', %s)", body)

    def claim_elsewhere(self) -> None:
        """Claim what has failed on another host, with what nobody has tried."""
        failed = [next(self._tasks) for _ in range(2)]
        reports = [report_of(one, "failed") for one in failed]
        self._agent.exchange(reports)
        promote(self._postgres)
        agent = self._hire(host="elsewhere")
        self.connection.execute(f"set taskq.position_{self._campaign} = ''")
        claimed = self._exchange(agent, [], "", want=20)
        assert sum(one.attempt > 1 for one in claimed) >= 2

    def leave(self) -> None:
        """End a session that has three tasks."""
        agent = self._hire()
        agent.claim(3)
        assert self._say("end_session", session=agent.session, why="done", exit_code=0) == [
            {"end_session": 3}
        ]

    def cancel(self) -> None:
        """Cancel a single task, and give it another chance."""
        only = {"campaign": self._campaign, "tasks": [next(self._tasks).task]}
        for name, words in (
            ("cancel", {}),
            ("retry", {"status": "cancelled", "error_class": None}),
        ):
            (answer,) = self._say(name, **only, **words, after=0, limit=10)
            assert answer["moved"] == 1

    def retry_failed(self) -> None:
        """Give the only failed task another chance."""
        self._agent.fail(next(self._tasks), retry=False)
        (answer,) = self._say(
            "retry",
            campaign=self._campaign,
            status="failed",
            error_class="Boom",
            tasks=None,
            after=0,
            limit=5_000,
        )
        assert answer["moved"] == 1

    def keep(self) -> None:
        """Do a round of upkeep that finds a few delayed tasks due."""
        self._agent.fail(next(self._tasks))
        self._postgres.execute("update taskq.task set due_at = now() where status = 'delayed'")
        (done,) = self._say("keep", holder="00000000-0000-0000-0000-000000000000", term_s=10)
        assert done["acting"]
        assert 1 <= done["promoted"] <= 20

    def seed(self) -> None:
        """Seed two tasks, one of which is known."""
        known = value(self._postgres, "select min(key) from taskq.spec")
        keys = json.dumps([known, "new"])
        assert self._say("seed_known", campaign=self._campaign, keys=keys) != []
        fresh = {"key": self._agent.draw_lease(), "payload": {}}
        tasks = [{"key": known, "payload": {}}, fresh]
        assert self._seed_all(tasks, "fail") == (1, 0)

    def keep_both(self) -> None:
        """Seed two tasks whose key another payload has, and one of them again."""
        key = value(self._postgres, "select max(key) from taskq.spec")
        payloads = [{"new": self._agent.draw_lease()} for _ in range(2)]
        tasks = [{"key": key, "payload": payload} for payload in payloads]
        assert self._seed_all([*tasks, tasks[0]], "keep-both") == (2, 2)
        assert self._seed_all(tasks, "skip") == (0, 0)

    def _seed_all(self, tasks: list[dict[str, Any]], on_conflict: str) -> tuple[int, int]:
        words = {"path": "/c", "tasks": json.dumps(tasks), "on_conflict": on_conflict}
        (answer,) = self._say("seed_tasks", **words, named=10)
        return answer["added"], answer["conflicts"]

    def count(self) -> None:
        """Ask how many tasks stand where."""
        self._say("counts", path="/c", depth=0)
        self._say("left_over", path="/c", offers=[])
        self._say("servable", path="/", lifetime_s=None, offers=[], most=3)

    def _say(self, name: str, **values: object) -> list[dict[str, Any]]:
        return self.connection.execute(statement(name), values).fetchall()

    def _exchange(
        self,
        agent: ScriptedAgent,
        reports: list[dict[str, Any]],
        verdict: str,
        *,
        lease: str = "",
        want: int = 0,
    ) -> list[Claimed]:
        (answer,) = self._say(
            "exchange",
            campaign=self._campaign,
            reports=json.dumps(reports) if reports else None,
            sessions=[agent.session],
            leases=[lease or agent.draw_lease()],
            wants=[want or len(reports)],
        )
        assert (answer["acks"] or []) == [verdict] * len(reports)
        return agent.claimed(answer)


@dataclass(frozen=True)
class Verb:
    """What is done; how it may reach the hot tables; rows one access meets and pages all touch.

    A claim meets all attempts of its task; on a slow machine one task is claimed again and again.
    """

    act: Callable[[Load], None]
    access_paths: set[str]
    rows: int = 16
    pages: int = 160


CLAIM = {
    "task by task_waiting",
    "task by task_waiting_again",
    "task by task_pkey",
    "task by task_working",
    "spec by spec_pkey",
    "span by span_waiting",
    "span by span_pkey",
    "bundle by bundle_pkey",
    "bundle by bundle_task",
}

# What gives bundles and spans up, for what is no plain claim or report.
UNPACK = {
    "bundle by bundle_pkey",
    "bundle by bundle_task",
    "span by span_pkey",
    "spec by spec_pkey",
}

VERBS = {
    "report done": Verb(lambda load: load.exchange("done"), CLAIM),
    "report failed": Verb(
        lambda load: load.exchange("failed"), CLAIM | {"attempt by attempt_pkey"}
    ),
    "report released": Verb(
        lambda load: load.exchange("released"), CLAIM | {"attempt by attempt_pkey"}
    ),
    "report refused": Verb(Load.refuse, CLAIM | {"attempt by attempt_pkey"}),
    "report 100": Verb(
        lambda load: load.exchange("done", 100),
        CLAIM | {"attempt by attempt_pkey"},
        rows=100,
        pages=4_000,
    ),
    "report again": Verb(Load.repeat_report, CLAIM | {"attempt by attempt_pkey"}),
    "report for another": Verb(
        Load.report_for_another, CLAIM | {"attempt by attempt_pkey"}, pages=200
    ),
    "report on several campaigns": Verb(
        Load.settle_many, CLAIM | {"attempt by attempt_pkey"}, pages=250
    ),
    "identify": Verb(Load.identify, set(), pages=20),
    "claim again": Verb(Load.repeat_claim, CLAIM),
    "claim elsewhere": Verb(
        Load.claim_elsewhere,
        CLAIM | {"attempt by attempt_pkey"},
        rows=40,
        pages=1_000,
    ),
    "beat": Verb(Load.beat, UNPACK | {"task by task_pkey", "task by task_working"}),
    "salvage": Verb(Load.salvage, CLAIM | {"attempt by attempt_pkey"}, pages=400),
    "poison": Verb(
        Load.poison,
        UNPACK
        | {
            "task by task_pkey",
            "task by task_working",
            "task by task_failed",
            "attempt by attempt_pkey",
        },
    ),
    "leave": Verb(Load.leave, UNPACK | {"task by task_pkey", "task by task_working"}),
    "cancel": Verb(Load.cancel, UNPACK | {"task by task_pkey"}),
    "retry": Verb(
        Load.retry_failed, {"task by task_failed", "task by task_pkey", "attempt by attempt_pkey"}
    ),
    "keep": Verb(
        Load.keep,
        UNPACK | {"task by task_working", "task by task_delayed", "task by task_pkey"},
        rows=200,
        pages=1_000,
    ),
    "seed": Verb(Load.seed, {"spec by spec_pkey", "spec by spec_key_key"}),
    "keep both": Verb(
        Load.keep_both, {"spec by spec_pkey", "spec by spec_key_key"}, rows=100, pages=1_000
    ),
    "count": Verb(Load.count, set(), rows=200, pages=200),
}


@pytest.fixture
def load(campaign: Campaign, hire: Hire, postgres: Postgres, dsn: str) -> Iterator[Load]:
    """Give a load without tasks yet."""
    with psycopg.connect(dsn, autocommit=True, row_factory=dict_row) as connection:
        yield Load(connection, postgres, campaign.campaign_id, hire)


@pytest.mark.parametrize("unpacked", [False, True], ids=["packed", "unpacked"])
@pytest.mark.parametrize("statistics", ["true", "all waiting", "absent", "empty", "few", "cached"])
def test_every_verb_goes_by_key_whatever_the_statistics_say(
    statistics: str, unpacked: bool, load: Load, postgres: Postgres
) -> None:
    """No verb walks a table, nor an index over working tasks beyond those that it is about.

    true         analysed as the tables are
    all waiting  analysed when the last task was seeded and none claimed: the ordinary case
    absent       never analysed
    empty        analysed before the first task
    few          analysed when the campaign was a small one
    cached       as `few`, with plans that were made then
    """
    if statistics == "empty":
        postgres.execute("analyze")
    elif statistics in {"few", "cached"}:
        load.grow(1_500, 1_500)
        for outcome in ("done", "failed", "released"):
            load.exchange(outcome, 8)
        postgres.execute("analyze")
    if statistics == "cached":
        # After the fifth time a plan may be kept that serves all values.
        for verb in VERBS.values():
            for _ in range(6):
                verb.act(load)
    analyze = {"true": "claimed", "all waiting": "seeded"}.get(statistics, "")
    load.grow(20_000, 5_000, unpacked=unpacked, analyze=analyze)

    for name, verb in VERBS.items():
        for _ in range(2):  # planning reads the catalogues, for either way to claim
            verb.act(load)
        load.draw_no_fold()
        with watched(load.connection) as seen:
            verb.act(load)
        hot = seen.to("task", "spec", "attempt", "span", "bundle")
        assert hot.access_paths <= verb.access_paths, name
        assert hot.widest is None or hot.widest.rows <= verb.rows, (name, hot.widest)
        assert seen.buffers <= verb.pages, name
