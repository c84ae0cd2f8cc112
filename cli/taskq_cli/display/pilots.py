"""Display of pilots and their jobs by `taskq pilot`, and of the script of a job."""

from __future__ import annotations

import json
import os
from datetime import datetime, timezone
from typing import Any, Final

from taskq import Client
from taskq.diagnosis.tables.pilots import about_loop
from taskq.model.columns import Column
from taskq.model.errors import NotFound
from taskq.model.pilot_views import PilotView
from taskq.pilots.drivers import make_driver, program
from taskq.pilots.pilot_file import DescribedPilot, pilot_settings
from taskq.pilots.settings import SETTINGS
from taskq_cli.display.output import Record, as_record, facts, write_record
from taskq_cli.display.text import printable

ROUND_COLUMNS: Final[tuple[Column[Record], ...]] = (
    Column("pilot", lambda pilot: pilot["name"]),
    Column("acted"),
    Column("submitted"),
    Column("cancelled"),
    Column("ended"),
    Column("trouble", gives_way=True),
)


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
            "loop": about_loop(pilot),
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


def imagined(pilot: DescribedPilot) -> PilotView:
    """Return a view of a pilot that is not stored."""
    return PilotView(
        pilot_id=0,
        name=pilot.name,
        key="00000000",
        path=pilot.path,
        driver=pilot.driver,
        settings=json.loads(pilot.settings.to_json()),
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


def _shown(key: str, value: Any) -> str:
    """Return a stored setting for people."""
    return SETTINGS[key].shown(tuple(value) if isinstance(value, list) else value)
