"""Campaign files: one TOML file describes a campaign and, if wanted, its tasks.

path = "/wisdom/malaria/1lf3"
weight = 2.0                  # see taskq.CampaignSpec
requires = ["gpu", "mem>=16"]
on_disconnect = "stop"
late_results = "salvage"
front = false                 # never leased ahead
[handler]                     # see taskq.Handler
kind = "python"
target = "dock:dock"
[retry]                       # see RetryPolicy
[limits]
time_limit_s = 1800.0
max_running = 500
max_failure_share = 0.5
[resources]                   # of one task
cores = 4
memory = ["4G", "8G"]
[params]                      # shared by all tasks
exhaustiveness = 8
[seed]                        # file, format, sweep and the fields of SourceOptions
file = "ligands.smi.gz"       # relative to the campaign file
sweep = ["seed=101:104"]
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

from taskq.ingest.sources import Crossed, Source, SourceOptions, open_source, sweep
from taskq.ingest.sources.files import choose_format
from taskq.model.campaign_spec import CampaignSpec, campaign_keys
from taskq.model.errors import InvalidCampaign, NotFound, UsageError
from taskq.model.table_checks import known_only

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MAX_FILE_BYTES: Final = 1_048_576

_OPTIONS: Final = tuple(option.name for option in fields(SourceOptions))
_SEED: Final = ("file", "format", "sweep", *_OPTIONS)


@dataclass(frozen=True, slots=True)
class SeedPlan:
    """Source of a campaign's tasks: a file, a sweep, or the product of the two."""

    file: Path | None
    format: str | None
    options: SourceOptions
    sweep: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.file is not None:
            choose_format(str(self.file), self.format, self.options)
        if self.file is None or self.sweep:
            sweep(self.sweep)

    def open(self) -> Source:
        """Open the source of the tasks; raise what `open_source` raises."""
        if self.file is None:
            return sweep(self.sweep)
        source = open_source(self.file, format=self.format, options=self.options)
        return Crossed(source, sweep(self.sweep)) if self.sweep else source


@dataclass(frozen=True, slots=True)
class CampaignFile:
    """Content of a campaign file."""

    spec: CampaignSpec
    seed: SeedPlan | None


def read_campaign_file(path: str | Path) -> CampaignFile:
    """Read and check a campaign file.

    Does not check that the named files exist. Raise `NotFound` if there is no campaign file,
    `UsageError` if it cannot be read, `InvalidCampaign` or `InvalidPath`, which name the key, if it
    does not describe a campaign.
    """
    path = Path(path).absolute()
    try:
        table = tomllib.loads(_text(path))
        if "handler" not in table:
            raise InvalidCampaign("the table [handler] is missing: it names what executes a task")
        seed = table.pop("seed", None)
        return CampaignFile(
            spec=CampaignSpec.from_json(table, elsewhere=[f"seed.{name}" for name in _SEED]),
            seed=None if seed is None else _seed_plan(seed, path.parent),
        )
    except UsageError as error:
        raise type(error)(f"{path}: {error}") from None
    except (ValueError, RecursionError) as error:
        raise InvalidCampaign(f"{path}: not TOML: {error}") from None


def _text(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        raise NotFound(f"there is no campaign file {str(path)!r}") from None
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}") from None
    if len(data) > MAX_FILE_BYTES:
        raise UsageError(f"larger than {MAX_FILE_BYTES} bytes, too large for a campaign file")
    return data.decode("utf-8-sig")


def _seed_plan(value: object, folder: Path) -> SeedPlan:
    table = known_only("seed", value, _SEED, campaign_keys())
    for name in ("file", "format"):
        if not isinstance(table.get(name, ""), str):
            raise InvalidCampaign(f"seed.{name} must be text, not {table[name]!r:.80}")
    specs = table.get("sweep", [])
    if not isinstance(specs, list) or not all(isinstance(spec, str) for spec in specs):
        raise InvalidCampaign(f'seed.sweep must be a list such as ["seed=1:4"], not {specs!r:.80}')
    if "file" not in table and (len(table) > 1 or not specs):
        raise InvalidCampaign("seed.file is missing; only a sweep needs no file")
    try:
        return SeedPlan(
            file=folder / table["file"] if "file" in table else None,
            format=table.get("format"),
            options=SourceOptions(**{name: table[name] for name in _OPTIONS if name in table}),
            sweep=tuple(specs),
        )
    except UsageError as error:
        raise InvalidCampaign(f"seed: {error}") from None
