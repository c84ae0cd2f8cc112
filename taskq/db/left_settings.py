"""Settings that are left to the server, and which of their values harm a queue.

What taskq sets on its connections is in `sessions`; `taskq db check` looks at these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_DAMAGE: Final = "damaged pages are read as empty ones, and tasks are lost without a word"
_SLOW: Final = "lists and claims read whole tables"
_SHORT: Final = "the upkeep and large statements are cancelled again and again"


@dataclass(frozen=True, slots=True)
class LeftSetting:
    """A setting that is left to the server. good: harmless values, the first one to be set.

    harm: what others do. loses: whether they lose work or stop the queue. least: for a limit in
    milliseconds, the least that is harmless.
    """

    good: tuple[str, ...]
    harm: str
    loses: bool = False
    least: int | None = None

    def is_good(self, value: str) -> bool:
        """Return whether a value harms nothing, as the server shows it."""
        if self.least is not None and value.isdecimal() and int(value) >= self.least:
            return True
        return value.strip("'") in self.good


LEFT: Final[Mapping[str, LeftSetting]] = {
    "fsync": LeftSetting(("on",), "an outage of power can destroy the whole queue", loses=True),
    "full_page_writes": LeftSetting(
        ("on",),
        "an outage of power can destroy pages, unless the file system writes them whole, as ZFS "
        "does",
    ),
    "synchronous_commit": LeftSetting(
        ("on", "local", "remote_write", "remote_apply"),
        "a crash of the server loses the last second of seeds, results and changes",
    ),
    "autovacuum": LeftSetting(
        ("on",), "tables grow without end, and claims get slower and slower", loses=True
    ),
    "track_counts": LeftSetting(("on",), "autovacuum does nothing", loses=True),
    "enable_indexscan": LeftSetting(("on",), _SLOW),
    "enable_nestloop": LeftSetting(("on",), _SLOW),
    "track_activities": LeftSetting(("on",), "`taskq explain` cannot name who blocks others"),
    "default_transaction_read_only": LeftSetting(("off",), "nothing can be written", loses=True),
    "zero_damaged_pages": LeftSetting(("off",), _DAMAGE, loses=True),
    "ignore_checksum_failure": LeftSetting(("off",), _DAMAGE, loses=True),
    "ignore_invalid_pages": LeftSetting(("off",), _DAMAGE, loses=True),
    "old_snapshot_threshold": LeftSetting(("-1",), "long reads fail: snapshot too old"),
    "statement_timeout": LeftSetting(("0",), _SHORT, least=30_000),
    "transaction_timeout": LeftSetting(("0",), _SHORT, least=30_000),
}
