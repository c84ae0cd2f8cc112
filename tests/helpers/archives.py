"""A campaign that has ended in all the ways there are, for archives, and what the queue shows."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from taskq import Campaign, CampaignSpec, Client, Seed
from taskq.archives.opening import Where
from taskq.archives.writing import Archived, archive
from taskq.db.connections import Database
from taskq.files.blobs import open_blobs
from tests.helpers.campaigns import TRUE
from tests.helpers.paths import ROOT
from tests.helpers.scripted_agent import ScriptedAgent

ARCHIVER = ROOT / "tests/payloads/archiver.py"
#: A result that is a blob.
LARGE = b'{"pose": "' + b"C" * 1_000 + b'"}'


def ended(queue: Client, hire: Callable[..., ScriptedAgent], folder: Path) -> Campaign:
    """Return /c with /c/below: 12 and 2 tasks, done, failed, withdrawn, lost, cancelled."""
    campaign = queue.create_campaign(
        CampaignSpec("/c", handler=TRUE, params={"grid": 1}, late_results="salvage")
    )
    below = queue.create_campaign(CampaignSpec("/c/below", handler=TRUE))
    given = folder / "receptor.txt"
    given.write_text("receptor")
    campaign.add_input(given)
    odd = {"big": 1e300, "text": "\u00e4\u2028\\", "deep": [{"a": None}]}
    campaign.seed(Seed({"n": n, **odd}, f"k{n}", priority=n % 3) for n in range(12))
    below.seed([Seed({}, "a"), Seed({}, "b")])
    agent, other = hire("/c"), hire("/c/below", host="node2", agent="other")
    digest = hashlib.sha256(LARGE).hexdigest()
    open_blobs(queue.queries).put_verified(digest, LARGE)
    tasks = agent.claim(8)
    agent.done(tasks[0], {"taskq_blob": {"digest": digest, "size": len(LARGE)}})
    for task in tasks[1:4]:
        agent.report(task, "done", result={"score": -0.1}, tail="out", phases={"run": 1.5})
    agent.fail(tasks[4], retry=False)
    agent.fail(tasks[5])
    for task in tasks[6:]:
        agent.release(task, started=True)
    campaign.change(replace(campaign.spec(), params={"grid": 2}))
    campaign.retry(keys=[tasks[1].key], status="done")
    (again,) = (task for task in agent.claim(8) if task.key == tasks[1].key)
    agent.done(again, {"score": -2})
    other.done(other.claim(1)[0])
    campaign.cancel()
    agent.leave()
    other.leave()
    campaign.resume()
    return campaign


def archived(database: Database, to: Where, path: str = "/c", *, range_tasks: int = 3) -> Archived:
    """Archive a campaign in small ranges."""
    blobs = open_blobs(database)
    return archive(database, blobs, path, to, lambda *_: None, range_tasks=range_tasks)


def shown(queue: Client, path: str = "/c") -> dict[str, Any]:
    """Return what commands show of a campaign and those below it, without ids and paths."""
    top, found = queue.campaign(path), {}
    for campaign in (top, *top.children()):
        tasks = [_plain(task) for task in campaign.tasks(below=False)]
        found[campaign.path.removeprefix(path)] = {
            "spec": replace(campaign.spec(), path="/"),
            "inputs": campaign.inputs(),
            "changes": campaign.changes(),
            "counts": _plain(campaign.status(below=False), "children"),
            "tasks": tasks,
            "attempts": [[_plain(it) for it in campaign.attempts(task["key"])] for task in tasks],
            "history": [[_plain(it) for it in campaign.history(task["key"])] for task in tasks],
            "results": [_plain(it) for it in campaign.results(below=False)],
        }
    return found


def _plain(view: Any, *without: str) -> dict[str, Any]:
    """Return the fields of a view that do not depend on where the campaign is."""
    where = {"campaign", "campaign_id", "task_id", "path", *without}
    return {name: value for name, value in asdict(view).items() if name not in where}


def archiver(*words: object) -> subprocess.CompletedProcess[str]:
    """Run a process that archives or restores."""
    command = [sys.executable, ARCHIVER, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
