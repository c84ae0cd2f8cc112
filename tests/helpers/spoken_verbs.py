"""The verbs of the queue, spoken on one connection next to many tasks."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

from taskq.db.catalogue import statement
from tests.fixtures.queues import Hire
from tests.helpers.campaigns import TRUE
from tests.helpers.crowded_sites import crowd
from tests.helpers.postgres import Postgres, promote, silence, value
from tests.helpers.scripted_agent import Claimed, ScriptedAgent, report_of

#: The position behind the last claim, see hint.sql, may be used for seconds.
_PROLONGED = """
    select set_config(
               p.name,
               (p.hint[:2] || (extract(epoch from now()) * 1e6 + 4e6)::bigint || p.hint[4:])::text,
               false)
      from (select n.name, nullif(current_setting(n.name, true), '')::bigint[] as hint
              from (select %s::text as name) n) p
     where p.hint is not null
"""


class Load:
    """The verbs, spoken on one connection, next to many tasks in the hands of one agent."""

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
            self._postgres.execute("select taskq.seed_end(%s, %s, 2)", [self._campaign, above])
            if unpacked:
                self._postgres.execute(
                    "select taskq.unspan(%(c)s, array(select task_id from taskq.spec"
                    " where campaign_id = %(c)s and task_id > %(above)s))",
                    {"c": self._campaign, "above": above},
                )
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

    def be_usual(self) -> None:
        """See to it that the next exchange is as nearly all are.

        It is not the one in a thousand that folds the counts.
        """
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
            "held": [task.fence for task in held[:2]],
            "pending": [],
            "drawn": agent.drawn,
        }
        (answer,) = self._say("beat", beats=json.dumps([said]))
        assert [task for _, task, _ in answer["stop"]] == [held[0].task]

    def salvage(self) -> None:
        """Name an attempt that was lost in a beat, and report its success while another works."""
        self._change(late_results="salvage", max_lost_hosts=1_000)
        late, heir = self._lost(), self._hire()
        assert heir.claim(1)[0].task == late.task
        beat = {"session": heir.session, "pending": [], "drawn": None}
        held = [late.fence]
        assert self._say("beat", beats=json.dumps([beat | {"held": held}])) == []
        reports = [report_of(task, "done") for task in (late, next(self._tasks))]
        self._exchange(heir, reports, "accepted")
        self._change(late_results="reject")

    def run_out_of_time(self) -> None:
        """Hand tasks back for want of time, one of them in vain: it is too long then."""
        self._change(max_out_of_time=1)
        report = report_of(next(self._tasks), "released", error_class="out-of-time")
        self._exchange(self._agent, [report], "accepted")
        self._change(max_out_of_time=5)
        report = report_of(next(self._tasks), "released", error_class="continued")
        self._exchange(self._agent, [report], "accepted")

    def keep_a_checkpoint(self) -> None:
        """Save one of a task, find it, and let it go with the end of the task."""
        self._change(checkpoint_bytes=20_000)
        task = next(self._tasks)
        held = {
            "session": self._agent.session,
            "campaign": task.campaign,
            "task": task.task,
            "lease": task.lease,
        }
        (saved,) = self._say("save_checkpoint", **held, digest="0" * 64, size=1)
        assert saved == {"saved": True, "replaced": None}
        (found,) = self._say("find_checkpoint", **held)
        assert found == {"digest": "0" * 64, "size": 1, "memory_failures": 0}
        self._say("end_checkpoints", campaign=0, task=0, most=100)
        self._agent.done(task)
        (ended,) = self._say("end_checkpoints", campaign=0, task=0, most=100)
        assert ended["digests"] == ["0" * 64]

    def keep_output_files(self) -> None:
        """Save those of an attempt, and see that they stay, and go with the campaign's tasks."""
        self._change(output_bytes=20_000)
        task = next(self._tasks)
        held = {"campaign": task.campaign, "task": task.task, "lease": task.lease}
        held["session"] = self._agent.session
        (saved,) = self._say("save_output", **held, digest="1" * 64, size=1)
        assert saved == {"saved": True, "replaced": None}
        self._agent.done(task)
        (ended,) = self._say("end_outputs", campaign=0, task=0, most=100)
        assert ended["digests"] is None
        (found,) = self._say("outputs_of", campaign=task.campaign, tasks=[task.task])
        assert found["digest"] == "1" * 64

    def hedge(self) -> None:
        """Hedge the last task of a small campaign, next to all others."""
        path = f"/ending-{uuid.uuid4()}"
        spec = json.dumps({"late_results": "salvage", "hedge": 1, "handler": TRUE.to_json()})
        campaign = value(self._postgres, "select taskq.create_campaign(%s, %s)", path, spec)
        tasks = json.dumps([{"key": f"8{n}", "payload": {}} for n in range(21)])
        self._postgres.execute("select taskq.submit(%s, %s)", [path, tasks])
        slow = self._hire(path, host="slow")
        self._hire(path, host="idle")
        for task in slow.claim(20):
            slow.done(task)
        (last,) = slow.claim()
        long_ago = "update taskq.task set claimed_at = '1970-01-01' where task_id = %s"
        self._postgres.execute(long_ago, [last.task])
        assert value(self.connection, "select taskq.hedge()") == 1
        assert last.campaign == campaign

    def poison(self) -> None:
        """Lose the agent of a task that is poison then, and give it another chance."""
        self._change(max_lost_hosts=1)
        late = self._lost()
        only = {"campaign": self._campaign, "tasks": [late.task], "after": 0, "limit": 10}
        (answer,) = self._say("retry", **only, status="failed", error_class="poison", dry_run=False)
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

    def claim_at_a_site(self) -> None:
        """Claim where the campaign limits how many run at a site, next to a full one's claims."""
        self._change(max_running_per_site=20_000)
        crowd(self._postgres, self._campaign, "full", 2_000, tasks=10, at_work=False)
        agent = self._hire(host="there", site="full")
        (task,) = self._exchange(agent, [], "", want=1)
        self._exchange(agent, [report_of(task, "done")], "accepted")
        self._postgres.execute("truncate taskq.limit_claim, taskq.limit_total")
        self._change(max_running_per_site=None)

    def claim_elsewhere(self) -> None:
        """Claim what has failed on another host, with what nobody has tried."""
        failed = [next(self._tasks) for _ in range(2)]
        reports = [report_of(task, "failed") for task in failed]
        self._agent.exchange(reports)
        promote(self._postgres)
        agent = self._hire(host="elsewhere")
        self.connection.execute(f"set taskq.position_{self._campaign} = ''")
        claimed = self._exchange(agent, [], "", want=20)
        assert sum(task.attempt > 1 for task in claimed) >= 2

    def leave(self) -> None:
        """End a session that has three tasks."""
        agent = self._hire()
        agent.claim(3)
        assert self._say(
            "end_session", session=agent.session, why="done", exit_code=0, attempts=3
        ) == [{"end_session": 3}]

    def cancel(self) -> None:
        """Cancel a single task, and give it another chance."""
        only = {"campaign": self._campaign, "tasks": [next(self._tasks).task]}
        for name, words in (
            ("cancel", {"begun": True}),
            ("retry", {"status": "cancelled", "error_class": None, "dry_run": False}),
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
            dry_run=False,
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
        assert self._say("seed_within", campaign=self._campaign, low="", high=known) == [
            {"seed_within": True}
        ]
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

    def _say(self, name: str, /, **values: object) -> list[dict[str, Any]]:
        # It goes on behind the last claim, as nearly all do: without that position, which holds for
        # less than a busy machine may take between two, a claim walks past all that was claimed.
        self.connection.execute(_PROLONGED, [f"taskq.position_{self._campaign}"])
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
        words = {"campaign": self._campaign, "reports": json.dumps(reports) if reports else None}
        lease, want = lease or agent.draw_lease(), want or len(reports)
        if len(reports) == want == 1:
            (answer,) = self._say("exchange_one", **words, session=agent.session, lease=lease)
        else:
            claim = {"sessions": [agent.session], "leases": [lease], "wants": [want]}
            (answer,) = self._say("exchange", **words, **claim)
        assert (answer["acks"] or []) == [verdict] * len(reports)
        return agent.claimed(answer)
