"""Pilot files: one TOML file describes pilots, each a table with the keys of its settings.

[pilots.hpc]
driver = "slurm"
campaign = "/wisdom"
cores = 32                    # these and the other keys: see taskq.pilots.settings.PilotSettings
time_limit = "12h"
max_jobs = 200
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from taskq.model.errors import NotFound, UsageError
from taskq.model.seed import check_path
from taskq.pilots.settings import PilotSettings, check_name, pilot_settings

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MAX_FILE_BYTES: Final = 1_048_576


@dataclass(frozen=True, slots=True)
class DescribedPilot:
    """A pilot as its file describes it."""

    name: str
    driver: str
    path: str
    settings: PilotSettings


def read_pilot_file(file: Path, *, folder: Path) -> list[DescribedPilot]:
    """Return the pilots in a file, in its order.

    folder: a pilot NAME without a folder gets `folder/NAME`. Raise `NotFound` if there is no such
    file, `UsageError` that names the fault in it.
    """
    try:
        data = file.read_bytes()[: MAX_FILE_BYTES + 1]
    except OSError as error:
        raise NotFound(f"{file}: {error.strerror}") from None
    if len(data) > MAX_FILE_BYTES:
        raise UsageError(f"{file}: more than {MAX_FILE_BYTES:,} bytes")
    try:
        content = tomllib.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{file}: not TOML: {error}") from None
    tables = content.pop("pilots", None)
    if content or not isinstance(tables, dict) or not tables:
        raise UsageError(f"{file}: it must have tables [pilots.NAME], and nothing else")
    return [_described(file, name, table, folder) for name, table in tables.items()]


def _described(file: Path, name: str, table: Any, folder: Path) -> DescribedPilot:
    rest = dict(table) if isinstance(table, dict) else {}
    driver, path = rest.pop("driver", None), rest.pop("campaign", None)
    if not isinstance(driver, str) or not isinstance(path, str):
        raise UsageError(f"{file}: [pilots.{name}]: driver and campaign must be there, as texts")
    rest.setdefault("folder", f"{folder}/{name}")
    try:
        return DescribedPilot(
            check_name(name), driver, check_path(path), pilot_settings(driver, rest)
        )
    except UsageError as error:
        raise UsageError(f"{file}: [pilots.{name}]: {error}") from None
