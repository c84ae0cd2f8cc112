"""How each statement that names a campaign is asked, next to a larger campaign, and its cost."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from taskq import Client
from tests.helpers.campaign_rows import FILL, PRESENCE, SMALL
from tests.helpers.further_statements import further_values
from tests.helpers.postgres import Postgres, value

OLD, NEW, SESSIONS, PAGE = 10_000, 1_200, 400, 100


@dataclass(frozen=True, slots=True)
class Case:
    """With what a statement is asked, after which others; and what it may cost.

    rows: of `task`, `spec`, `attempt` and `session`, the most that one access meets.
    """

    rows: int
    values: dict[str, Any] = field(default_factory=dict)
    after: tuple[tuple[str, dict[str, Any]], ...] = ()


class Scene:
    """A campaign of 1,200 tasks next to an older one of 10,000, and some agents."""

    def __init__(self, queue: Client, postgres: Postgres) -> None:
        self.postgres = postgres
        self._old, self._new = (queue.create_campaign(path) for path in ("/old", "/new"))
        postgres.execute(PRESENCE, [SESSIONS])
        self.campaign = self._new.campaign_id

    def fill(self, statistics: str) -> None:
        """Add the tasks."""
        if statistics == "of small ones":
            self.postgres.execute(SMALL)
        if statistics in {"empty", "of small ones"}:
            self.postgres.execute("analyze")
        self._fill(self._old.campaign_id, OLD)
        if statistics == "without it":
            self.postgres.execute("analyze")
        self._fill(self.campaign, NEW)
        if statistics == "true":
            self.postgres.execute("analyze")

    def cases(self, agent: int) -> dict[str, list[Case]]:
        """Return how each statement is asked."""
        # In the middle, so that what goes from one end of the campaign to the other is seen.
        failed = value(
            self.postgres,
            "select min(task_id) from taskq.state where campaign_id = %s and status = 'failed'"
            "   and task_id > (select avg(task_id) from taskq.state where campaign_id = %s)",
            *(self.campaign, self.campaign),
        )
        record = {"campaign": self.campaign}
        it = {"path": "/new"}
        some_of_it = {**it, "limit": 10}
        at_once = {"after_s": 0.0}
        page = {**record, "after": failed - 1, "limit": PAGE}
        some = list(range(failed, failed + 4))
        lease = "00000000-0000-7000-8000-000000000000"
        blob = {"path": "/new", "name": "x", "digest": "0" * 64, "size": 1}
        named = {"campaigns": [self.campaign], "tasks": [failed], "leases": [lease]}
        text = json.dumps([{"path": "/new", "lifetime_s": None, "offers": []}])
        beat = {
            "session": agent,
            "held": [{"campaign": self.campaign, "task": failed, "lease": lease}],
            "pending": [],
        }
        task = json.dumps([{"key": "n=1", "payload": {}}, {"key": "fresh", "payload": {}}])
        seeding = {"tasks": task, "on_conflict": "skip", "named": 3}
        site = {"place": 0, "token_hash": "", "session_hash": "", "address": None}
        opened = {
            "path": "/new",
            "key": lease,
            "lease_s": 60,
            "agent": "a",
            "host": "h",
            "site": "s",
            "pid": 1,
            "slots": 1,
            "release": "",
            "offers": [],
        }
        token = {"kind": "site", "name": "t", "hash": b"t", "lifetime_s": None}
        recovered = {**it, "site": None, "silent_s": None, "dry_run": False}
        own = {**it, "task": failed, "lease": lease}
        cancelled = (("set_status", {"path": "/new", "status": "cancelled"}),)
        permitted = {
            "hash": b"",
            "kind": "manager",
            "paths": ["/new"],
            "campaigns": [self.campaign],
        }
        permitted |= {"quiet": False, "timeout_s": 60.0}
        keeping = (
            (
                "change_campaign",
                {**it, "spec": '{"checkpoint_bytes": 20000, "output_bytes": 20000}'},
            ),
        )
        held = {"session": agent, **record, "task": failed, "lease": lease}
        plans: tuple[tuple[str, dict[str, Any]], ...] = (("audit_plans", {}),)
        claim = {"sessions": [agent], "leases": [lease], "wants": [3]}
        report = {"outcome": "done", "task": failed, "lease": lease}
        reporting = {**record, "reports": json.dumps([report])}
        retried = [
            Case(
                PAGE if status == "failed" else 2 * PAGE,  # every third attempt failed
                {**page, "status": status, "error_class": name, "tasks": tasks, "dry_run": dry},
            )
            for dry in (False, True)
            for status in ("failed", "done")
            for name, tasks in ((None, None), ("exit-1", None), (None, some))
            if name is None or status == "failed"
        ]
        return {
            "add_argument": [Case(0, {name: blob[name] for name in ("path", "digest", "size")})],
            "add_input": [Case(0, blob)],
            "agent_slots": [Case(SESSIONS + 1, {**it, "offers": [], "requires": []})],
            "attempts": [Case(4, {**record, "task": failed})],
            "audit_evidence": [Case(4, {**record, "tasks": some}, plans)],
            "audit_page": [Case(PAGE, {**record, "after": failed, "most": PAGE}, plans)],
            "beat": [Case(4, {"beats": json.dumps([beat | {"drawn": None}])})],
            "best_of_groups": [
                Case(
                    PAGE,
                    {
                        **record,
                        "after": failed - 1,
                        "scan": PAGE - 1,
                        "part": part,
                        "name": "score",
                        "ascending": True,
                        "group_part": group_part,
                        "group_name": "n",
                        "inline": True,
                        "recipe": recipe,
                    },
                )
                for part, group_part, recipe in (
                    ("result", "payload", None),
                    ("payload", "result", 1),
                )
            ],
            "best_results": [
                Case(
                    PAGE,
                    {
                        **record,
                        "after": failed - 1,
                        "scan": PAGE - 1,
                        "top": 10,
                        "worst": None,
                        "part": part,
                        "name": name,
                        "ascending": True,
                        "inline": True,
                        "recipe": recipe,
                    },
                )
                for part, name, recipe in (("result", "score", None), ("payload", "a.b", 1))
            ],
            "campaign": [Case(0, it)],
            "campaign_by_id": [Case(0, record)],
            "campaign_settings": [Case(0, it)],
            "campaign_unsealed": [Case(0, it)],
            "campaign_metrics": [Case(0, {"paths": ["/new"], "limit": 200})],
            "cancel": [
                Case(4 * PAGE, {**page, "tasks": None, "begun": True}),
                # Four look-ups, of which the average is rounded up.
                *(
                    Case(8, {**page, "after": 0, "tasks": some, "begun": begun})
                    for begun in (True, False)
                ),
            ],
            "change_campaign": [Case(0, {**it, "spec": '{"weight": 2}'})],
            "claim": [Case(4, {**it, "session": agent, "lease": lease, "want": 1})],
            "complete": [Case(4, {**own, "result": None})],
            "fail": [Case(4, {**own, "error_class": "x", "error": "", "retry": True})],
            "release": [Case(4, {**own, "started": False})],
            "report": [Case(4, {**own, "outcome": "done", "details": "{}"})],
            "at_or_below": [Case(0, {**it, "top": "/"})],
            "token_covers": [Case(0, it)],
            "claimable": [Case(0, {"servings": text, "front": True})],
            "closed_by": [Case(0, it)],
            "counts": [Case(0, {**it, "depth": depth}) for depth in (0, 1, None)],
            "notable_counts": [Case(0, it)],
            "campaign_changes": [Case(0, it)],
            "recipe": [Case(0, {**it, "recipe": 1})],
            "create_campaign": [Case(0, {"path": "/new/one", "spec": "{}"})],
            "create_notify_rule": [
                Case(0, {**it, "name": "r", "events": ["paused"], "target": "mail:a@b"} | at_once)
            ],
            "create_pilot": [
                Case(0, {**it, "name": "p", "driver": "d", "settings": "{}", "replace": False})
            ],
            "create_token": [
                Case(
                    0,
                    {
                        **token,
                        "paths": ["/new"],
                        "networks": None,
                        "max_uses": None,
                        "max_output_bytes": None,
                        "at_site": None,
                    },
                )
            ],
            "done_within": [
                Case(
                    PAGE,
                    {**record, "firsts": firsts, "lasts": lasts, "since": since, "scan": PAGE - 1},
                )
                for since, firsts, lasts in (
                    ("2026-03-01T00:00:00Z", [failed], [2**63 - 1]),
                    (
                        None,
                        list(range(failed, failed + 40, 4)),
                        list(range(failed + 1, failed + 41, 4)),
                    ),
                )
            ],
            "drop_index": [Case(0, {**it, "part": "result", "name": "score"})],
            "drain_sessions": [
                Case(
                    2, {**it, "sites": ["here"], "agents": None, "hosts": None, "dry_run": dry_run}
                )
                for dry_run in (False, True)
            ],
            "end_checkpoints": [Case(4, {**record, "task": 0, "most": PAGE})],
            "end_outputs": [Case(4, {**record, "task": 0, "most": PAGE})],
            "enrol_many": [Case(1, {"hellos": json.dumps([opened | site]), "lease_s": 60})],
            "exchange": [
                Case(4, {**record, **claim, "reports": None}),
                Case(4, {**reporting, **dict.fromkeys(claim)}),
            ],
            "exchange_one": [Case(4, {**reporting, "session": agent, "lease": lease})],
            "explain_campaigns": [Case(0, {**it, "chosen": [record["campaign"]]})],
            "explain_closed": [Case(0, some_of_it)],
            "explain_batches": [Case(SESSIONS, some_of_it)],
            "explain_pace": [Case(0, it)],
            "first_attempts": [Case(0, {**it, "most": 10})],
            "explain_due": [Case(2_000, it)],
            "explain_failed": [Case(PAGE, {**it, "chosen": [record["campaign"]], "limit": PAGE})],
            "explain_held": [Case(SESSIONS, {**some_of_it, "chosen": [record["campaign"]]})],
            "explain_lost": [Case(2 * SESSIONS + 2, some_of_it)],
            "explain_others": [Case(0, {**some_of_it, "scope": "/"})],
            "explain_refusals": [Case(0, some_of_it)],
            "explain_tokens": [Case(0, some_of_it)],
            "failing_tasks": [Case(PAGE, {**it, "most": PAGE})],
            "failure_causes": [Case(NEW // 4, {**record, "limit": 20})],
            "failure_classes": [Case(NEW // 4, record)],
            "failures": [Case(PAGE, page)],
            "find_checkpoint": [Case(4, held)],
            "follow": [Case(4, {**record, "task": failed})],
            "known_fields": [
                Case(
                    PAGE,
                    {
                        **record,
                        "fields": '[["payload", "x"], ["result", "score"]]',
                        "stretches": 10,
                        "each": PAGE // 10,
                    },
                )
            ],
            "find_tasks": [
                Case(
                    PAGE,
                    {
                        **page,
                        "filter": '["=", ["class"], "exit-1"]',
                        "states": states,
                        "parts": ["attempt", "payload", "result"],
                        "payloads": True,
                        "tasks": some,
                    },
                )
                for states, some in (
                    (["failed"], None),
                    (["done"], None),
                    (["waiting", "working"], None),
                    (["waiting", "done"], None),
                    (["waiting", "done"], some),
                )
            ],
            "front_lists": [Case(4, {"campaigns": [self.campaign]})],
            "give_campaign": [Case(0, {**it, "owner": "bob"})],
            "frontable": [Case(0, {"campaigns": [self.campaign]})],
            "fill_index": [
                Case(
                    PAGE,
                    {**it, "part": part, "name": "score", "scan": PAGE - 1},
                    (("index_results", {**it, "part": part, "name": "score"}),),
                )
                for part in ("result", "payload")
            ],
            "index_results": [Case(0, {**it, "part": "result", "name": "score"})],
            "is_input": [Case(0, {**it, "digest": "0" * 64})],
            **{
                key: [Case(4, {**record, "tasks": some})] for key in ("last_attempts", "outputs_of")
            },
            "last_due": [Case(1_000, it)],
            "is_own_result": [Case(4, {**record, "task": some[0], "attempt": None})],
            "latest_attempts": [Case(PAGE, {**it, "most": PAGE})],
            "latest_results": [Case(PAGE, {**it, "most": PAGE})],
            "latest_failure": [
                Case(PAGE, {**it, "host": host, "error_class": "exit-1", "most": PAGE})
                for host in ("h1", "nobody", None)
            ],
            **{key: [Case(SESSIONS + 1, {**it, "limit": 10})] for key in ("agents", "left_agents")},
            "agent_counts": [Case(SESSIONS + 1, it)],
            "left_over": [Case(0, {**it, "offers": None})],
            "lease_ahead": [Case(PAGE, {**record, "epoch": 1, "most": 10, "before": None})],
            "name_ahead": [Case(4, {**named, "sessions": [agent]})],
            "open_session": [Case(1, opened)],
            "owner_metrics": [Case(0, {"paths": ["/new"], "limit": 200})],
            "overdue": [Case(SESSIONS + PAGE, {**it, "most": PAGE})],
            "owners": [Case(0, {**it, "within": ["/"]})],
            "usage": [Case(0, {**it, "per": ["owner"], "since": None, "most": PAGE})],
            **{key: [Case(0, it)] for key in ("paces", "perhaps_unfinished")},
            **{key: [Case(SESSIONS + 1, some_of_it)] for key in ("explain_agents", "places")},
            "permit": [Case(0, permitted)],
            "pilot_demand": [Case(PAGE, {**it, "offers": [], "lifetime_s": 60.0})],
            # As of cancel.
            "prioritise": [Case(5, {**record, "tasks": some, "priorities": [1] * len(some)})],
            # It looks at all sessions.
            "recover": [Case(SESSIONS + 1, {**recovered, "lost_since": "2000-01-01Z"})],
            "recover_since": [
                Case(SESSIONS + 1, {**recovered, "lost_since": None, "lost_within": "1 h"})
            ],
            **{key: [Case(0, it)] for key in ("refusals", "runs")},
            "remove_campaign": [Case(4, it, cancelled)],
            "remove_input": [Case(0, {**it, "name": "x"})],
            "remove_tasks": [Case(PAGE, page, cancelled)],
            **{key: [Case(SESSIONS + 1, it)] for key in ("scopes", "standstill")},
            "result_indexes": [Case(0, it)],
            "troubles_of": [Case(0, {"paths": ["/new"]})],
            "result_sample": [
                Case(PAGE, {**record, "stretches": 10, "each": PAGE // 10, "name": name})
                for name in ("score", None)
            ],
            # Every third attempt there failed.
            "results": [Case(2 * PAGE, page)],
            "results_text": [Case(2 * PAGE, page)],
            **{
                key: [Case(4, {**record, "tasks": some})]
                for key in ("results_of", "results_when_ended")
            },
            "ended_among": [Case(8, {"campaigns": [self.campaign] * len(some), "tasks": some})],
            "unsuccessful": [Case(8, {**record, "tasks": some})],
            "retry": retried,
            "return_ahead": [Case(4, {**named, "lost": False})],
            "save_checkpoint": [Case(4, {**held, "digest": "0" * 64, "size": 1}, keeping)],
            "note_updates": [
                Case(4, {"updates": json.dumps([{**held, "note": "n", "output": "eA=="}])})
            ],
            "save_output": [Case(4, {**held, "digest": "0" * 64, "size": 1}, keeping)],
            "seed_again": [Case(2, {**record, **seeding})],
            "seed_begin": [Case(1, record)],
            "seed_end": [Case(PAGE, {**record, "above": failed + OLD, "largest": 100})],
            "seed_known": [Case(2, {**record, "keys": '["n=1", "fresh"]'})],
            "seed_within": [Case(1, {**record, "low": "n=1", "high": "n=3"})],
            "seed_tasks": [Case(2, {**it, **seeding})],
            "servable": [Case(0, {**it, "lifetime_s": None, "offers": [], "most": 3})],
            "set_status": [Case(0, {**it, "status": "paused"})],
            "settle_many": [
                Case(4, {"campaigns": [self.campaign], "reports": json.dumps([report])})
            ],
            "shorten_delays": [Case(NEW // 2, page)],
            "submit": [Case(2, {**it, "tasks": task, "on_conflict": "skip"})],
            "submit_calls": [Case(2, {**it, **record, "tasks": task})],
            "task_ids": [Case(3, {**record, "keys": ["n=1", "n=7", "n=1500"]})],
            "hedges": [Case(0, {**it, "below": True, "most": PAGE})],
            "tasks": [
                Case(PAGE, {**page, "status": None}),
                Case(PAGE, {**page, "status": "failed"}),
                # No index knows these in their order: it goes through the campaign's own.
                Case(NEW, {**page, "status": "working"}),
                Case(1, {**page, "limit": 1, "status": None}),
            ],
            "trend": [Case(0, {**record, "minutes": None})],
            "withdrawals": [Case(0, {**record, "task": 0, "attempt": 0, "limit": PAGE})],
            "withdrawals_of": [Case(0, {**record, "tasks": some})],
            "withdrawn_results": [Case(4, {**record, "tasks": some, "attempts": [1] * len(some)})],
            "usual_run": [Case(PAGE, {**record, "most": PAGE})],
        } | {
            name: [Case(*it)]
            for name, it in further_values(self.campaign, failed, PAGE, SESSIONS).items()
        }

    def _fill(self, campaign: int, count: int) -> None:
        self.postgres.execute(FILL, {"campaign": campaign, "count": count, "sessions": SESSIONS})
