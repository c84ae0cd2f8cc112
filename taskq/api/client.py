"""The submitters' API: a `Client` finds and creates campaigns by path, and runs functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING

from typing_extensions import Self

from taskq.api.function_calls import FunctionCalls
from taskq.campaign.campaign import Campaign
from taskq.db.acts import ALL_ACTS, acts
from taskq.db.audit import Violation, audit
from taskq.db.connections import Database
from taskq.db.gateway_queries import GatewayQueries, home
from taskq.db.named_limits import NamedLimits
from taskq.db.owners import Owners
from taskq.db.standby import StandbyReads
from taskq.db.stones import ALL_REMOVED, removed, unknown_campaign
from taskq.db.stored_spec import described_changes, spec_body
from taskq.db.tokens import Tokens
from taskq.db.usage import ALL_LINES, Per, Usage, usage
from taskq.diagnosis import clauses
from taskq.model.acts import RecordedAct
from taskq.model.campaign_spec import CampaignSpec
from taskq.model.errors import Conflict, NotOverGateway, UnknownCampaign
from taskq.model.removed import RemovedCampaign
from taskq.model.seed import check_path
from taskq.model.views import AgentCounts, AgentView, Brake, LeftAgent, LeftOver, Recovery, Refusals
from taskq.results.ranking import Best
from taskq.results.selection import Selection, select

if TYPE_CHECKING:  # what few commands need is imported when it is used
    from taskq.diagnosis.fleet import Fleet
    from taskq.diagnosis.maintenance import Maintenance
    from taskq.diagnosis.troubles import Troubles
    from taskq.pilots.store import Pilots
    from taskq.results.feeder import Fed
    from taskq.upkeep.notifications import Notifications


class Client(FunctionCalls):
    """A connection to a queue; use it as a context manager, or call `close`. Thread-safe.

    Where no path is named, lists begin at the top; over a gateway, at the first campaign that the
    token is for.

    Attributes:
        tokens: The tokens of sites and managers.
        owners: Owners of campaigns, and their quotas.
        limits: Limits that campaigns share.
        local_agents: Agents that `taskq.local_agents` runs now for this program.
        embedded: Whether the server is this user's own.
        begun: Paths of the campaigns that this client has created or given calls.

    Raises:
        UsageError: By calls in a forked child of the process that connected: connect again there.
        NotOverGateway: By calls that need PostgreSQL itself, over a gateway.
        UnknownCampaign: By calls with a path that no campaign has.
    """

    def __init__(
        self, queries: Database | GatewayQueries | StandbyReads, *, embedded: bool = False
    ) -> None:
        super().__init__(queries, embedded=embedded)
        self.tokens = Tokens(queries)
        self.owners = Owners(queries)
        self.limits = NamedLimits(queries)

    @cached_property
    def fleet(self) -> Fleet:
        """Hosts and sites."""
        from taskq.diagnosis.fleet import Fleet  # noqa: PLC0415

        return Fleet(self.queries)

    @cached_property
    def troubles(self) -> Troubles:
        """What is wrong, since when, at what cost, and who knows of it."""
        from taskq.diagnosis.troubles import Troubles  # noqa: PLC0415

        return Troubles(self.queries)

    @cached_property
    def maintenance(self) -> Maintenance:
        """Announced times in which hosts, sites or campaigns are repaired."""
        from taskq.diagnosis.maintenance import Maintenance  # noqa: PLC0415

        return Maintenance(self.queries)

    @cached_property
    def pilots(self) -> Pilots:
        """The rules that start agents on batch systems."""
        from taskq.pilots.store import Pilots  # noqa: PLC0415

        return Pilots(self.queries)

    @cached_property
    def notifications(self) -> Notifications:
        """Notification rules."""
        from taskq.upkeep.notifications import Notifications  # noqa: PLC0415

        return Notifications(self.queries)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Client of {self.queries.server}>"

    def _repr_html_(self) -> str:
        from taskq.compute import progress  # noqa: PLC0415  # few programs are notebooks

        return progress.runs_html(lambda: [run.status for run in self.runs()], repr(self))

    def close(self) -> None:
        """Store calls that are on their way, then close all connections."""
        if "calls" in vars(self):
            self.calls.close()
        self.queries.close()

    @property
    def database(self) -> Database:
        """The connections to PostgreSQL.

        Raises:
            NotOverGateway: There are none.
        """
        return self._postgres("this")

    def _postgres(self, call: str) -> Database:
        if isinstance(self.queries, GatewayQueries):
            raise NotOverGateway(call)
        return self.queries if isinstance(self.queries, Database) else self.queries.primary

    @property
    def behind_s(self) -> float | None:
        """Age of the data read, in seconds at most; None if it was read from the primary."""
        return self.queries.behind_s if isinstance(self.queries, StandbyReads) else None

    def campaign(self, path: str) -> Campaign:
        """Return the campaign at a path.

        Raises:
            UnknownCampaign: There is none.
        """
        if (row := self.queries.row("campaign", path=check_path(path))) is None:
            raise unknown_campaign(self.queries, path)
        return Campaign(self.queries, row["campaign_id"], path)

    def create_campaign(
        self, spec: CampaignSpec | str, *, exist_ok: bool | None = None
    ) -> Campaign:
        """Create a campaign, and missing ones above it.

        Repeating the call is harmless: a campaign that has these settings, or is named by its path
        alone, is returned as it is.

        Args:
            spec: Its settings, or its path alone.
            exist_ok: True changes the settings of one that exists to the spec; False lets only one
                of several callers create it.

        Raises:
            Conflict: It exists with other settings, or with `exist_ok=False` at all; or one above
                it is archived.
        """
        wanted = CampaignSpec(spec) if isinstance(spec, str) else spec
        body = spec_body(wanted)
        try:
            campaign_id = self.queries.value("create_campaign", path=wanted.path, spec=body)
        except Conflict as error:
            if exist_ok is False:
                raise
            try:
                campaign = self.campaign(wanted.path)
            except UnknownCampaign:  # one above it is archived
                raise error from None
            now = campaign.spec()
            differs = not isinstance(spec, str) and bool(wanted.differences(now))
            if differs and not exist_ok:
                changes = described_changes(now, wanted)
                raise Conflict(f"{error}, with other settings: {changes}") from error
            if differs:
                campaign.change(wanted)
        else:
            campaign = Campaign(self.queries, campaign_id, wanted.path)
        self.begun.add(wanted.path)
        return campaign

    def agents(self, path: str | None = None, *, limit: int = 1_000) -> list[AgentView]:
        """Return the agents that serve a campaign, above or below it, longest silent first."""
        rows = self.queries.rows("agents", path=self._known(path), limit=limit)
        return [AgentView(**row) for row in rows]

    def agent_counts(self, path: str | None = None) -> AgentCounts:
        """Count the agents that serve a campaign, above or below it, however many there are."""
        (row,) = self.queries.rows("agent_counts", path=self._known(path))
        return AgentCounts(**row)

    def left_agents(self, path: str | None = None, *, limit: int = 1_000) -> list[LeftAgent]:
        """Return the agents that left within the last hour, and why, latest first; see `agents`."""
        rows = self.queries.rows("left_agents", path=self._known(path), limit=limit)
        return [LeftAgent(**row) for row in rows]

    def refusals(self, path: str | None = None) -> list[Refusals]:
        """Return the campaigns at and below a path that agents could not run, ordered by path."""
        return [Refusals(**row) for row in self.queries.rows("refusals", path=self._known(path))]

    def usage(
        self,
        path: str | None = None,
        *,
        per: Sequence[Per] = ("owner",),
        since: datetime | None = None,
        limit: int = ALL_LINES,
    ) -> Usage:
        """Return core- and GPU-hours of attempts that ended at and below a path, also removed ones.

        Args:
            path: Of a campaign that is there, or was.
            per: What to keep apart: owner, campaign, site, end, and day or month.
            since: From the hour that has this time; further back from its day, or month.
            limit: The most lines, 20,000; within a day or month those that used most come first.
        """
        place = home(self.queries) or "/" if path is None else path
        return usage(self.queries, place, per, since, limit)

    def removed(
        self, path: str | None = None, *, limit: int = ALL_REMOVED
    ) -> list[RemovedCampaign]:
        """Return the campaigns at and below a path that were removed, the latest first.

        What was removed as one, such as a campaign with all below it, is one of them. Of a path the
        latest ten are known.

        Args:
            path: There may be a campaign now, or none.
            limit: The most of them, 20,000.
        """
        return removed(self.queries, home(self.queries) or "/" if path is None else path, limit)

    def acts(
        self, path: str | None = None, verbs: Iterable[str] | None = None, limit: int = ALL_ACTS
    ) -> list[RecordedAct]:
        """Return who did what at a campaign, below it, and above it, the latest first.

        Args:
            path: There may be a campaign now, or none.
            verbs: Only these, such as cancel; None: all.
            limit: The most of them, 20,000.
        """
        return acts(self.queries, home(self.queries) or "/" if path is None else path, verbs, limit)

    def left_over(self, path: str | None = None) -> LeftOver:
        """Return how many tasks are unfinished, and how many of them no agent can claim."""
        (row,) = self.queries.rows("left_over", path=self._known(path), offers=None)
        return LeftOver(row["unfinished"], row["unservable"], clauses.unservable(row))

    def drain_agents(
        self,
        path: str = "/",
        *,
        site: str | Sequence[str] | None = None,
        name: str | Sequence[str] | None = None,
        host: str | Sequence[str] | None = None,
        dry_run: bool = False,
    ) -> int:
        """Drain agents that serve a campaign or one below it.

        The answer to their next heartbeat carries the order: they claim no more, finish the tasks
        they hold, and leave.

        Args:
            path: The campaign.
            site: Only agents of this site, or of one of several.
            name: Only agents of this name, or of one of several.
            host: Only agents on this host, or on one of several.
            dry_run: Change nothing.

        Returns:
            How many were not draining before.
        """
        named = {"sites": _several(site), "agents": _several(name), "hosts": _several(host)}
        how = {"path": self._known(path), "dry_run": dry_run}
        return int(self.queries.value("drain_sessions", **how, **named))

    def best(
        self,
        path: str,
        *,
        by: str,
        n: int | None = None,
        percent: float | None = None,
        lowest: bool = True,
        group: str | None = None,
        below: bool = True,
        so_far: bool = False,
        recipe: int | None = None,
    ) -> Selection:
        """Choose the best results of a campaign and all below it; iterate over them, best first.

        Ties are broken by the order of campaigns and of seeding, so that repeated calls choose the
        same. A million results at most, out of any number, in bounded memory.

        Args:
            path: The campaign.
            by: The dotted name of a number, such as `result.score`.
            n: How many to choose.
            percent: Which percentage instead of the results that have the number, rounded up.
            lowest: Whether the lowest number is best.
            group: A dotted name, such as `payload.smiles`: of results with the same value only the
                best counts, and percent is of the groups.
            below: Include the campaigns below.
            so_far: Choose from what is done now.
            recipe: Only results of this recipe of their campaigns.

        Raises:
            Conflict: Tasks are unfinished, so the best are not known yet, without `so_far`.
            UsageError: No result has the number.
        """
        wanted = Best(by, n=n, percent=percent, lowest=lowest, group=group, recipe=recipe)
        return select(self.queries, self.campaign(path), wanted, below=below, so_far=so_far)

    def feed(self, target: str, source: str, wanted: Best, *, below: bool = True) -> Fed:
        """Seed a campaign with the best results of another until that ends; see `Feeder`."""
        stages = self.campaign(source), self.campaign(target)
        from taskq.results.feeder import Feeder  # noqa: PLC0415

        return Feeder(self.queries, *stages, wanted, below=below).run()

    def brake(self) -> Brake | None:
        """Return the brake if it holds back expiry; None if the tasks of silent agents expire."""
        return Brake(**row) if (row := self.queries.row("brake")) else None

    def audit(
        self, path: str = "/", look: Callable[[str, int], None] = lambda _, __: None
    ) -> Iterator[Violation]:
        """Check the guarantees about tasks while the queue is at work; yield the violations.

        Checks a campaign and all below it, ordered by path; see `db.audit`. No violation means that
        all is well. Each campaign is read in one snapshot; nothing is written, and nobody waits.

        Args:
            path: The campaign.
            look: Called repeatedly with the path of the campaign being checked, and how many of its
                tasks were checked since the last call.

        Raises:
            NotFound: There is no such campaign.
        """
        return audit(self._postgres("audit"), check_path(path), look)

    def recover(
        self,
        path: str = "/",
        *,
        site: str | None = None,
        silent_s: float | None = None,
        lost_since: datetime | timedelta | None = None,
        dry_run: bool = False,
    ) -> Recovery:
        """End the sessions of silent agents and hand out their tasks again, atomically.

        Applies to agents that serve the campaign or one below it. Idempotent.

        Args:
            path: The campaign.
            site: Only agents of this site.
            silent_s: Seconds of silence while the server was up; by default half of the lease, in
                which a live agent sends two heartbeats.
            lost_since: Also retry tasks there that failed through lost agents since this instant,
                or within this duration.
            dry_run: Change nothing.
        """
        within = isinstance(lost_since, timedelta)
        (row,) = self.queries.rows(
            "recover_since",
            path=self._known(path),
            site=site,
            silent_s=silent_s,
            lost_since=None if within else lost_since,
            lost_within=lost_since if within else None,
            dry_run=dry_run,
        )
        return Recovery(**row)

    def _known(self, path: str | None) -> str:
        """Return the path if the campaign exists; raise `UnknownCampaign` otherwise."""
        return self.campaign(home(self.queries) or "/" if path is None else path).path


def _several(names: str | Sequence[str] | None) -> list[str] | None:
    """Return names as a list for the statements; None means all."""
    return [names] if isinstance(names, str) else None if names is None else list(names)
