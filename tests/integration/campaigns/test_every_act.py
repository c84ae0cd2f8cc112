"""Each statement that steers notes who did it: those that say so do, and no others."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from taskq import Campaign, CampaignSpec, Client, RetryPolicy, Seed
from taskq.archives.restoring import restore
from taskq.archives.writing import Archived, end_archive
from taskq.db.catalogue import all_statements
from taskq.db.connections import Database
from taskq.db.sql_files import files_of
from taskq.files.blobs import open_blobs
from taskq.model.acts import VERBS
from tests.fixtures.queues import Hire
from tests.helpers.archives import archived
from tests.helpers.campaigns import TRUE
from tests.helpers.postgres import Postgres, keep, value
from tests.integration.notify.support import look

#: What writes a row of `act`.
NOTES = frozenset({"note_act", "note_move"})
#: The statement, by which path, verb and words it is noted, and the call.
Step = tuple[str, str, str, list[str], Callable[[], Any]]


def expected() -> dict[str, frozenset[str]]:
    """Return the verbs of the statements that say by which they note an act."""
    return {name: known.acts for name, known in all_statements().items() if known.acts}


@cache
def called(name: str) -> frozenset[str]:
    """Return the functions that a statement calls itself."""
    file = files_of("functions").get(name) or files_of("queries").get(name)
    lines = file.read_text("utf-8").splitlines() if file else []
    code = "\n".join(line.partition("--")[0] for line in lines)
    return frozenset(re.findall(r"\btaskq\.(\w+)\(", code)) - {name}


@cache
def notes(name: str) -> bool:
    """Return whether a statement notes an act, itself or by what it calls."""
    return name in NOTES or any(map(notes, called(name)))


@dataclass
class Scene:
    """A queue with all that acts are about: /x with tasks, agents, a trouble, a pilot."""

    queue: Client
    database: Database
    postgres: Postgres
    folder: Path
    tree: Campaign

    def run(self, name: str, /, **words: Any) -> Callable[[], Any]:
        """Return the call of a statement."""
        return lambda: self.queue.queries.rows(name, **words)

    def acts(self) -> list[tuple[str, str, list[str]]]:
        """Return path, verb and words of all acts, the first one first."""
        rows = self.postgres.execute("select path, verb, what from taskq.act order by act_id")
        return [(row["path"], row["verb"], row["what"]) for row in rows.fetchall()]


@pytest.fixture
def scene(
    queue: Client, hire: Hire, database: Database, postgres: Postgres, tmp_path: Path
) -> Scene:
    """Have 60 tasks at /x, agents of three hosts, and a trouble: two agents drain."""
    spec = CampaignSpec("/x", handler=TRUE, retry=RetryPolicy(max_attempts=1))
    tree = queue.create_campaign(spec)
    tree.seed(Seed({"n": n}, f"n={n}") for n in range(60))
    queue.create_campaign("/old")
    (agent, *_) = [hire("/x", host=host) for host in ("n1", "n2", "n3")]
    for task in agent.claim(5):
        agent.fail(task, "exit-1", retry=False)
    assert len(agent.claim(2)) == 2
    keep(postgres)
    return Scene(queue, database, postgres, tmp_path, tree)


def of_tasks(scene: Scene) -> Iterator[Step]:
    """Yield the acts on campaigns and their tasks."""
    run, tree = scene.run, scene.tree
    (scene.folder / "grid").write_text("ATOM")
    spec = tree.spec()
    yield "set_status", "/x", "pause", [], tree.pause
    yield "set_status", "/x", "resume", [], tree.resume
    yield "change_campaign", "/x", "change", ["cores"], lambda: tree.change(replace(spec, cores=2))
    yield (
        "add_input", "/x", "change", ["input grid"],
        lambda: tree.add_input(scene.folder / "grid"),
    )  # fmt: skip
    yield "remove_input", "/x", "change", ["input grid"], lambda: tree.remove_input("grid")
    first = {"campaign": tree.campaign_id, "tasks": None, "after": 0, "limit": 1}
    failed = {"status": "failed", "error_class": None, "dry_run": False}
    last = value(scene.postgres, "select max(task_id) from taskq.spec")
    yield "retry", "/x", "retry", [], run("retry", **first, **failed)
    yield (
        "prioritise", "/x", "prioritise", [],
        run("prioritise", campaign=tree.campaign_id, tasks=[last], priorities=[5]),
    )  # fmt: skip
    yield "cancel", "/x", "cancel", [], run("cancel", **first, begun=False)
    for verb in ("retry", "prioritise", "cancel"):
        yield (
            "begin_act", "/x", verb, ["n = 1"],
            run("begin_act", path="/x", verb=verb, what=["n = 1"]),
        )  # fmt: skip
    yield "give_campaign", "/x", "give", ["ada"], lambda: scene.queue.owners.give("/x", "ada")


def of_agents(scene: Scene) -> Iterator[Step]:
    """Yield the acts on agents and hosts, and on what looks at them."""
    run, queue, postgres = scene.run, scene.queue, scene.postgres
    ban = {"kind": "host", "name": "n3"}
    yield (
        "ban", "/x", "ban", ["host n3", "hot"],
        run("ban", **ban, why="hot", lifetime_s=None, path="/x"),
    )  # fmt: skip
    yield "unban", "/x", "unban", ["host n3"], run("unban", **ban, path="/x")
    yield (
        "drain_sessions", "/x", "drain", ["hosts n1, n2", "2 drained"],
        lambda: queue.drain_agents("/x", host=["n1", "n2"]),
    )  # fmt: skip
    look(scene.database, postgres)
    (known,) = (it for it in queue.troubles.list("/x").troubles if it.code == "draining")
    silence = {"trouble": known.trouble_id, "until_s": None, "note": "seen", "undo": False}
    yield (
        "acknowledge_trouble", "/", "acknowledge", ["draining", "/x", "seen"],
        run("acknowledge_trouble", **silence),
    )  # fmt: skip
    hour = timedelta(hours=1)
    yield (
        "start_maintenance", "/x", "maintain", ["window 1", "hosts n2", "new fans"],
        lambda: queue.maintenance.start(path="/x", hosts=["n2"], until=hour, why="new fans"),
    )  # fmt: skip
    yield (
        "end_maintenance", "/x", "maintain", ["window 1", "ended"],
        lambda: queue.maintenance.end(1),
    )  # fmt: skip
    crashed = {"site": None, "silent_s": 0.001, "dry_run": False}
    yield (
        "recover", "/x", "recover", ["3 sessions"],
        run("recover", path="/x", **crashed, lost_since=None),
    )  # fmt: skip
    postgres.execute("update taskq.attempt set error_class = 'agent-lost', outcome = 'lost'")
    yield (
        "recover_since", "/x", "retry", ["recover"],
        run("recover_since", path="/x", **crashed, lost_since=None, lost_within=hour),
    )  # fmt: skip


def of_the_queue(scene: Scene) -> Iterator[Step]:
    """Yield the acts on what campaigns share, and on what belongs to a part of them."""
    queue = scene.queue
    limits, owners, pilots = queue.limits, queue.owners, queue.pilots
    yield (
        "set_limit", "/", "limit", ["licence", "most 5", "owners ada"],
        lambda: limits.set("licence", 5, owners=["ada"]),
    )  # fmt: skip
    yield "remove_limit", "/", "limit", ["licence", "removed"], lambda: limits.remove("licence")
    yield (
        "set_quota", "/", "quota", ["ada", "max_running 9", "weight 2"],
        lambda: owners.set_quota("ada", {"weight": 2, "max_running": 9}),
    )  # fmt: skip
    yield (
        "share_by_owner", "/", "quota", ["shared out by owner"],
        lambda: owners.share_by("owner"),
    )  # fmt: skip
    yield (
        "create_token", "/x", "token", ["night", "manager", "created"],
        lambda: queue.tokens.create("manager", "night", ["/x"]),
    )  # fmt: skip
    yield (
        "revoke_token", "/x", "token", ["night", "manager", "revoked"],
        lambda: queue.tokens.revoke("night"),
    )  # fmt: skip
    yield (
        "create_notify_rule", "/x", "notify", ["to-us", "webhook", "failing"],
        lambda: queue.notifications.add("to-us", "/x", ["failing"], "webhook:https://a.example/key"),
    )  # fmt: skip
    yield (
        "remove_notify_rule", "/x", "notify", ["to-us", "removed"],
        lambda: queue.notifications.remove("to-us"),
    )  # fmt: skip
    yield (
        "create_pilot", "/x", "pilot", ["hpc", "slurm", "created"],
        lambda: pilots.create("hpc", "slurm", "/x", {"folder": "/jobs"}),
    )  # fmt: skip
    yield (
        "set_pilot_status", "/x", "pilot", ["hpc", "paused"],
        lambda: pilots.set_status("hpc", "paused"),
    )  # fmt: skip


def of_campaigns_that_go(scene: Scene) -> Iterator[Step]:
    """Yield the acts that end a campaign, and bring it back."""
    to = scene.folder / "archive"
    database, blobs = scene.database, open_blobs(scene.database)
    made: list[Archived] = []
    yield (
        "begin_archive", "/old", "archive", [],
        lambda: made.append(archived(database, to, "/old")),
    )  # fmt: skip
    yield (
        "end_archive", "/old", "remove", [],
        lambda: end_archive(database, "/old", made[0], remove=True),
    )  # fmt: skip
    yield (
        "end_restore", "/new", "restore", [],
        lambda: restore(database, blobs, to, "/new", lambda *_: None),
    )  # fmt: skip
    yield "begin_removal", "/x", "remove", [], scene.run("begin_removal", path="/x")


def test_each_statement_that_says_so_notes_its_act(scene: Scene) -> None:
    """By the part that it concerns; what concerns all, or is of the whole queue, at the root."""
    seen: dict[str, set[str]] = {}
    for steps in (of_tasks, of_agents, of_the_queue, of_campaigns_that_go):
        for name, path, verb, what, act in steps(scene):
            before = len(scene.acts())
            act()
            assert scene.acts()[before:] == [(path, verb, what)], name
            seen.setdefault(name, set()).add(verb)
    seen["set_status"].add("cancel")  # see test_acts.py
    for both in ("recover", "recover_since"):
        seen[both] = {"recover", "retry"}
    assert seen == expected()
    assert set().union(*seen.values()) == set(VERBS)


def test_statement_notes_an_act_if_and_only_if_it_says_so() -> None:
    """Those that say why not may call others that do, for what these do."""
    said = {name: bool(known.acts) for name, known in all_statements().items()}
    assert [name for name in said if said[name] and not notes(name)] == []
    assert [name for name in said if not said[name] and called(name) & NOTES] == []


def test_act_that_changes_nothing_is_none(scene: Scene) -> None:
    """Repeated with the same values, by a program each minute."""
    queue = scene.queue

    def again() -> None:
        queue.limits.set("licence", 5)
        queue.owners.set_quota("ada", {"max_running": 9})
        queue.owners.set_quota("bob", {"max_bytes": None})
        queue.owners.share_by("owner")
        queue.drain_agents("/x", site="nowhere")
        queue.drain_agents("/x", dry_run=True)
        queue.maintenance.end(window)
        queue.notifications.remove("none")
        queue.tokens.revoke("gone")
        queue.pilots.set_status("hpc", "paused")
        queue.recover("/x", dry_run=True)

    window = queue.maintenance.start(path="/x", until=timedelta(hours=1), why="x")
    queue.maintenance.end(window)
    queue.tokens.create("manager", "gone", ["/x"])
    queue.tokens.revoke("gone")
    queue.pilots.create("hpc", "slurm", "/x", {"folder": "/jobs"})
    queue.pilots.set_status("hpc", "paused")
    again()
    before = [*map(repr, queue.acts())]
    again()
    assert [*map(repr, queue.acts())] == before


def test_secrets_are_in_no_act(scene: Scene) -> None:
    """Neither a token or its hash, nor the address of a webhook, nor the settings of a pilot."""
    queue = scene.queue
    token = queue.tokens.create("site", "farm", ["/x"])[0]
    queue.tokens.revoke("farm")
    queue.notifications.add("us", "/x", ["failing"], "webhook:https://a.example/s3cret-key")
    settings = {"folder": "/jobs", "options": ["--comment=s3cret-key"]}
    queue.pilots.create("hpc", "slurm", "/x", settings)
    text = value(scene.postgres, "select string_agg(a::text, ' ') from taskq.act a")
    stored = value(scene.postgres, "select encode(hash, 'hex') from taskq.token")
    assert not [secret for secret in (token, token[:12], stored, "s3cret") if secret in text]


def test_token_for_several_parts_is_noted_in_each_without_the_others(queue: Client) -> None:
    """Of very many at the root, in one row."""
    paths = [f"/p{n}" for n in range(25)]
    for path in paths:
        queue.create_campaign(path)
    queue.tokens.create("manager", "two", ["/p1", "/p2", "/p1"])
    assert {it.path for it in queue.acts()} == {"/p1", "/p2"}
    assert "/p2" not in repr(queue.acts("/p1"))
    queue.tokens.create("manager", "many", paths)
    assert [it.path for it in queue.acts() if "many" in (it.what or ())] == ["/"]
