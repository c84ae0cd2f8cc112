"""The submitters' API: a connection, and campaigns by their paths."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from types import TracebackType

from typing_extensions import Self

from taskq import embedded
from taskq.campaign import Campaign, spec_body
from taskq.db import migrations
from taskq.db.audit import audit
from taskq.db.connections import Database
from taskq.errors import Conflict, UnknownCampaign
from taskq.spec.model import check_path
from taskq.spec.spec import CampaignSpec
from taskq.tokens import Tokens
from taskq.views import AgentView, Brake, LeftAgent, LeftOver, Recovery, Refusals, Violation


def connect(dsn: str | None = None) -> Client:
    """Connect to a queue.

    dsn: a PostgreSQL address; without one, that in `TASKQ_DSN`; without that, the embedded
    server of this user, which is started if it does not run and set up if it is new.

    Raise `Unavailable` if the server does not answer, `LoginRefused` if it lets nobody in so,
    `SchemaError` if its schema is not this release's (then `taskq db migrate` helps).
    """
    address = dsn or os.environ.get("TASKQ_DSN")
    if address:
        database = Database(address).open()
    else:
        info = embedded.Server().up()
        database = Database(info.dsn, server="the embedded PostgreSQL").open()
    try:
        if address:
            migrations.require(database)
        else:
            migrations.migrate(database)
    except BaseException:
        database.close()
        raise
    return Client(database)


class Client:
    """A connection to a queue; use it as a context manager, or call `close`. Thread-safe.

    tokens: those that sites and managers show at a gateway.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        self.tokens = Tokens(database)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self.database.close()

    def campaign(self, path: str) -> Campaign:
        """Return the campaign at a path; raise `UnknownCampaign` if there is none."""
        row = self.database.row("campaign", path=check_path(path))
        if row is None:
            raise UnknownCampaign(path)
        return Campaign(self.database, row["campaign_id"], path)

    def create_campaign(self, spec: CampaignSpec | str, *, exist_ok: bool = False) -> Campaign:
        """Create a campaign from a spec, or an empty one from a path.

        Those above it that are missing are created too. With `exist_ok`, one that exists is
        changed to the spec instead; without, raise `Conflict`.
        """
        spec = CampaignSpec(spec) if isinstance(spec, str) else spec
        body = spec_body(spec)
        try:
            campaign_id = self.database.value("create_campaign", path=spec.path, spec=body)
        except Conflict:
            if not exist_ok:
                raise
            campaign = self.campaign(spec.path)
            campaign.change(spec)
            return campaign
        return Campaign(self.database, campaign_id, spec.path)

    def agents(self, path: str = "/", *, limit: int = 1_000) -> list[AgentView]:
        """Return the agents that serve a campaign, above or below it, longest silent first.

        Raise `UnknownCampaign` if there is none.
        """
        rows = self.database.rows("agents", path=self._known(path), limit=limit)
        return [AgentView(**row) for row in rows]

    def left_agents(self, path: str = "/", *, limit: int = 1_000) -> list[LeftAgent]:
        """Return the agents that have left within the hour, with their reasons, latest first.

        Those that served a campaign, above or below it. Raise `UnknownCampaign` if there is none.
        """
        rows = self.database.rows("left_agents", path=self._known(path), limit=limit)
        return [LeftAgent(**row) for row in rows]

    def refusals(self, path: str = "/") -> list[Refusals]:
        """Return the campaigns at and below a path that agents could not run, by path.

        Raise `UnknownCampaign` if there is no such campaign.
        """
        return [Refusals(**row) for row in self.database.rows("refusals", path=self._known(path))]

    def left_over(self, path: str = "/") -> LeftOver:
        """Return how many tasks are unfinished, and which of them no agent can be given.

        Raise `UnknownCampaign` if there is no such campaign.
        """
        (row,) = self.database.rows("left_over", path=check_path(path), offers=None)
        return LeftOver(**row)

    def drain_agents(
        self,
        path: str = "/",
        *,
        site: str | Sequence[str] | None = None,
        name: str | Sequence[str] | None = None,
        host: str | Sequence[str] | None = None,
    ) -> int:
        """Tell agents to claim no more and to leave; return how many were not told before.

        Those that serve a campaign or one below it; only of a site, of a name, on a host, or of
        one of several; None: of any. They hear of it with the answer to their next beat, and finish
        what they have in hand. Raise `UnknownCampaign` if there is none.
        """
        named = {"sites": _several(site), "agents": _several(name), "hosts": _several(host)}
        return int(self.database.value("drain_sessions", path=self._known(path), **named))

    def brake(self) -> Brake | None:
        """Return what holds the tasks of silent agents; None: they are handed out as usual."""
        row = self.database.row("brake")
        return None if row is None else Brake(**row)

    def audit(
        self, path: str = "/", look: Callable[[str, int], None] = lambda _, __: None
    ) -> Iterator[Violation]:
        """Check what is promised about tasks, while the queue is at work; yield what breaks it.

        Of a campaign and all below it, by path; see `taskq.db.audit`. Nothing yielded: all is
        well. Each campaign is seen at one moment, nothing is written, and nobody waits.

        look: called now and then with the path of the campaign under way, and with how many of
        its tasks were checked since. Raise `NotFound` if there is no such campaign.
        """
        return audit(self.database, check_path(path), look)

    def recover(
        self,
        path: str = "/",
        *,
        site: str | None = None,
        silent_s: float | None = None,
        lost_since: datetime | timedelta | None = None,
        dry_run: bool = False,
    ) -> Recovery:
        """End the sessions of silent agents and hand out their tasks again, all or nothing.

        Those that serve a campaign or one below it; only of a site. silent_s: silent for so many
        seconds, in which the server was up; by default for half of the lease, in which an agent
        that lives has beaten twice. lost_since: since this instant, or within so long, tasks there
        that failed through lost agents get another chance as well. dry_run: only tell.
        Repeating it is harmless. Raise `UnknownCampaign` if there is none.
        """
        within = isinstance(lost_since, timedelta)
        (row,) = self.database.rows(
            "recover",
            path=self._known(path),
            site=site,
            silent_s=silent_s,
            lost_since=None if within else lost_since,
            lost_within=lost_since if within else None,
            dry_run=dry_run,
        )
        return Recovery(**row)

    def _known(self, path: str) -> str:
        """Return the path, of a campaign that there is; raise `UnknownCampaign`."""
        return self.campaign(path).path


def _several(names: str | Sequence[str] | None) -> list[str] | None:
    """Return names as the statements want them; None stands for all."""
    if names is None:
        return None
    return [names] if isinstance(names, str) else list(names)
