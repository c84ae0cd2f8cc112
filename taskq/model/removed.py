"""Campaigns that were removed, and those that will be: what is known of them, and in words."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from taskq.model.words import command, duration, instant


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


@dataclass(frozen=True, slots=True)
class RetentionDate:
    """When the keeper removes a campaign with all below it, since it ended long ago.

    Attributes:
        path: Of what is removed: the campaign, or one above it.
        ended_at: When all its tasks had ended, as far as is known.
        keep_s: How long it stays after that, in seconds.
        archive_first: Whether it stays until it is archived; is_archived: it is.
        trouble: Why the last try failed.
    """

    path: str
    ended_at: datetime
    keep_s: float
    due_at: datetime
    archive_first: bool
    is_archived: bool
    trouble: str | None

    def words(self, asked: str) -> str:
        """Return what will become of a campaign that was asked for: this one, or one below it."""
        what = "" if asked == self.path else f"with {self.path} "
        first = ""
        if self.archive_first and not self.is_archived:
            first = f" once it is archived, which `{command('keeper')} --archive-to` does"
        trouble = "" if self.trouble is None else f"; the last try failed: {self.trouble}"
        after = f"{duration(self.keep_s)} after the end"
        return f"{what}at {instant(self.due_at)}{first}, {after}{trouble}"
