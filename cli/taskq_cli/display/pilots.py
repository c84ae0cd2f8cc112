"""Display of pilots and their jobs by `taskq pilot`, and of the script of a job."""

from __future__ import annotations

import json
import os
from datetime import datetime, timezone
from typing import Any, Final

from taskq import Client
from taskq.model.errors import NotFound
from taskq.model.views import PilotView
from taskq.model.words import duration
from taskq.pilots.drivers import make_driver, program
from taskq.pilots.pilot_file import DescribedPilot, pilot_settings
from taskq.pilots.settings import SETTINGS
from taskq_cli.display.output import Column, as_record, facts, write_record
from taskq_cli.display.text import printable


def described(pilot: PilotView) -> str:
    """Return a pilot as text."""
    return facts(
        {
            "pilot": pilot.name,
            "driver": pilot.driver,
            "campaign": pilot.path,
            "status": pilot.status,
            "paused": pilot.paused_why,
            "trouble": pilot.trouble,
            "loop": about_loop(pilot.looked_ago_s, pilot.looked_from),
            "jobs": f"{pilot.serving} serving, {pilot.starting} starting, {pilot.queued} queued",
            **{key: _shown(key, value) for key, value in pilot.settings.items()},
        }
    )


def script_for(pilot: PilotView) -> str:
    """Return the script of a pilot's first job, or of its first array."""
    settings = pilot_settings(pilot.driver, pilot.settings)
    name, count = f"taskq-{pilot.name}-{pilot.key}-1", min(settings.array, settings.most)
    names = [name] if count == 1 else [f"{name}_{n}" for n in range(count)]
    return make_driver(pilot, settings, os.environ).script(names, pilot.path, program())


def imagined(one: DescribedPilot) -> PilotView:
    """Return a view of a pilot that is not stored."""
    return PilotView(
        pilot_id=0,
        name=one.name,
        key="00000000",
        path=one.path,
        driver=one.driver,
        settings=json.loads(one.settings.to_json()),
        status="active",
        paused_why=None,
        failures=0,
        failed_ago_s=None,
        trouble=None,
        retry_in_s=None,
        looked_ago_s=None,
        looked_from=None,
        created_at=datetime.now(timezone.utc),
        submitting=0,
        queued=0,
        starting=0,
        serving=0,
    )


def write_job(output: str, client: Client, name: str, number: int) -> None:
    """Write everything known about a job; raise `NotFound`."""
    found = [job for job in client.pilots.jobs(name, ended=1_000_000) if job.number == number]
    if not found:
        raise NotFound(f"the pilot {name} has no job {number}, or it ended a month ago")
    record = as_record(found[0])
    text = facts({key: value for key, value in record.items() if key not in {"tail", "age_s"}})
    if found[0].tail:
        text += f"\n\n{printable(found[0].tail)}"
    write_record(output, record, text)


def about_loop(looked_ago_s: float | None, looked_from: str | None) -> str:
    """Return when a loop last looked at a pilot, and where."""
    if looked_ago_s is None:
        return "none yet"
    return f"{duration(looked_ago_s)} ago on {looked_from}"


def after(one: Any, since: str, until: str) -> str | None:
    """Return the time between two instants of a record; None if one is missing."""
    if one[since] is None or one[until] is None:
        return None
    return duration(max(0.0, (one[until] - one[since]).total_seconds()))


def _shown(key: str, value: Any) -> str:
    """Return a stored setting for people."""
    return SETTINGS[key].shown(tuple(value) if isinstance(value, list) else value)


PILOT_COLUMNS: Final = (
    Column("name"),
    Column("driver"),
    Column("campaign", lambda one: one["path"]),
    Column("status"),
    Column("queued", lambda one: one["queued"] + one["submitting"]),
    Column("starting"),
    Column("serving"),
    Column("most", lambda one: one["settings"].get("max_jobs")),
    Column("loop", lambda one: about_loop(one["looked_ago_s"], one["looked_from"])),
    Column("trouble", lambda one: one["paused_why"] or one["trouble"], gives_way=True),
)

JOB_COLUMNS: Final = (
    Column("job", lambda one: one["number"]),
    Column("status", lambda one: one["outcome"] or one["status"]),
    Column("id", lambda one: one["native_id"]),
    Column("host", lambda one: one["host"] or one["place"]),
    Column("began", lambda one: one["began_at"]),
    Column("started", lambda one: after(one, "began_at", "started_at")),
    Column("heard", lambda one: after(one, "began_at", "heard_at")),
    Column("lasted", lambda one: after(one, "started_at", "ended_at")),
    Column("code", lambda one: one["exit_code"]),
    Column("why", lambda one: one["left_why"] or one["why"], gives_way=True),
)

ROUND_COLUMNS: Final = (
    Column("pilot", lambda one: one["name"]),
    Column("acted"),
    Column("submitted"),
    Column("cancelled"),
    Column("ended"),
    Column("trouble", gives_way=True),
)
