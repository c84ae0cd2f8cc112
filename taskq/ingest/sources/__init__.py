"""Where tasks come from: seed files and parameter sweeps, as streams of records.

`open_source` reads a file, `sweep` makes combinations of parameters, `cross` combines the
two. Each gives a `Source`, whose records are a `Seed` for each task and a `BadLine` for each
piece that cannot be one; the caller decides whether a bad line stops or is skipped.
"""

from __future__ import annotations

from taskq.ingest.sources.files import FORMATS, check_read_once, open_source
from taskq.ingest.sources.records import BadLine, Damage, Record, Source, SourceOptions
from taskq.ingest.sources.sweep import Sweep, cross, sweep

__all__ = [
    "FORMATS",
    "BadLine",
    "Damage",
    "Record",
    "Source",
    "SourceOptions",
    "Sweep",
    "check_read_once",
    "cross",
    "open_source",
    "sweep",
]
