"""Sources of tasks: seed files and parameter sweeps, as streams of records.

`open_source` reads a file, `sweep` makes combinations of parameters, `Crossed` combines the two.
Each is a `Source`, which yields a `Seed` for each task and a `BadLine` for each piece of input that
is not a task; the caller decides whether to stop at bad lines or skip them.
"""

from __future__ import annotations

from taskq.ingest.sources.files import FORMATS, check_read_once, open_source
from taskq.ingest.sources.records import BadLine, Damage, Record, Source, SourceOptions
from taskq.ingest.sources.sweep import Crossed, Sweep, sweep

__all__ = [
    "FORMATS",
    "BadLine",
    "Crossed",
    "Damage",
    "Record",
    "Source",
    "SourceOptions",
    "Sweep",
    "check_read_once",
    "open_source",
    "sweep",
]
