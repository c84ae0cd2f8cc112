"""Records of results, for the tests of exports."""

from __future__ import annotations

import importlib
from datetime import datetime, timedelta, timezone
from typing import Any, Final

PARQUET: Any = importlib.import_module("pyarrow.parquet")  # it has no types
AT: Final = datetime(2026, 11, 20, 17, 34, 5, 250_000, tzinfo=timezone(timedelta(hours=1)))
#: A mol block, without which no record goes to SDF.
METHANE: Final = (
    "\n\n\n  1  0  0  0  0  0  0  0  0  0999 V2000\n" + 3 * "    0.0000" + " C\nM  END\n"
)


def record(i: int, **changes: Any) -> dict[str, Any]:
    """Return the record of a result."""
    return {
        "key": f"L{i}",
        "task": i,
        "attempt": 1,
        "outcome": "done",
        "error": None,
        "ended_at": AT,
        "payload": {"smiles": "C" * (i % 7 + 1), "seed": i},
        "result": {"score": -i / 8, "poses": [1, {"x": None}]},
        **changes,
    }
