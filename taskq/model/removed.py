"""Campaigns that were removed: what is still known of them, and in words."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from taskq.model.words import command, instant


@dataclass(frozen=True, slots=True)
class RemovedCampaign:
    """A campaign that was removed with all below it.

    Attributes:
        removed_by: A login, or the name of a token; None if the caller's token is not for it, as
            are the next ones then.
        owner: Whose it was.
        campaigns: How many were removed, with itself; done, failed, cancelled: their tasks.
        archive: Where its archive was verified, and `digest`, that of the archive's manifest; None
            if it was removed without one.
    """

    path: str
    removed_at: datetime
    removed_by: str | None
    owner: str | None
    created_at: datetime | None
    campaigns: int | None
    done: int | None
    failed: int | None
    cancelled: int | None
    archive: str | None
    digest: str | None

    def words(self, asked: str) -> str:
        """Return what became of a campaign that was asked for: this one, or one below it."""
        what = "it" if asked == self.path else self.path
        if self.removed_by is None:
            return f"{what} was removed at {instant(self.removed_at)}"
        said = f"{what} was removed at {instant(self.removed_at)} by {self.removed_by}"
        if self.archive is None:
            return f"{said}, without an archive"
        restore = command("campaign", "restore", names=[self.archive])
        return f"{said}; its archive is {self.archive} (digest {self.digest}): `{restore}`"
