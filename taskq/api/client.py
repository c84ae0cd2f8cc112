"""The submitters' API: `connect` returns a `Client`, which finds and creates campaigns by path."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import Self

from taskq import embedded
from taskq.campaign.campaign import Campaign
from taskq.db import migrations
from taskq.db.audit import audit
from taskq.db.connections import Database
from taskq.db.gateway_queries import GatewayQueries, open_gateway
from taskq.db.owners import Owners
from taskq.db.queue_address import is_gateway, queue_address
from taskq.db.standby import StandbyReads
from taskq.db.stored_spec import described_changes, spec_body
from taskq.db.tokens import Tokens
from taskq.diagnosis.fleet import Fleet
from taskq.model.campaign_spec import CampaignSpec
from taskq.model.errors import Conflict, NotOverGateway, SchemaMissing, UnknownCampaign, UsageError
from taskq.model.seed import check_path
from taskq.model.views import AgentView, Brake, LeftAgent, LeftOver, Recovery, Refusals, Violation
from taskq.pilots.store import Pilots
from taskq.results.feeder import Fed, Feeder
from taskq.results.ranking import Best
from taskq.results.selection import Selection, select
from taskq.upkeep.notifications import Notifications

if TYPE_CHECKING:  # what computes is imported when it is used
    from taskq.compute.futures import TaskFuture
    from taskq.compute.local_agents import LocalAgents
    from taskq.compute.plan import OnChange
    from taskq.compute.run import Run
    from taskq.compute.runs import Calls, StoredRun
    from taskq.compute.unpickling import Trust


def connect(
    address: str | None = None,
    *,
    token_file: str | Path | None = None,
    ca: str | Path | None = None,
) -> Client:
    """Connect to a queue.

    address: of PostgreSQL, or `https://...` of a gateway, or of several gateways, joined by commas.
    By default `TASKQ_DSN` or `TASKQ_URL`. Without these it is the embedded server of this user,
    which is started if it does not run and set up if it is new. It is never upgraded, since agents
    of the release before may be at work. Within a task an address is required.
    token_file: the file with the manager's token for a gateway; by default `TASKQ_TOKEN_FILE` names
    it, or `TASKQ_TOKEN` is the token. ca: file with the authorities to trust instead of the
    system's; by default the one that `TASKQ_CA` names.

    Raise `Unavailable` if the server does not answer, `LoginRefused` if it refuses the login,
    `SchemaError` if its schema is not this release's (run `taskq db migrate`), `Unauthorized` if a
    gateway does not know the token.
    """
    found = queue_address(address)
    if found is not None and is_gateway(found):
        return Client(open_gateway(found, token_file=token_file, ca=ca))
    if found is not None:
        database = Database(found).open()
    elif "TASKQ_TASK" in os.environ:
        raise UsageError(
            "connect() within a task has no address: an agent keeps that of its queue, and its "
            "token, from what it runs, and a server of this node's own would be another queue. "
            "Return what is to be computed next, and submit it where the results are read; or give "
            "connect() an address, and a token in a file that the task may read"
        )
    else:
        info = embedded.Server().up()
        database = Database(info.dsn, server="the embedded PostgreSQL").open()
    try:
        try:
            migrations.require(database)
        except SchemaMissing:
            if found is not None:
                raise
            migrations.migrate(database)
    except BaseException:
        database.close()
        raise
    return Client(database, embedded=found is None)


class Client:
    """A connection to a queue; use it as a context manager, or call `close`. Thread-safe.

    In a forked child of the process that connected, calls raise `UsageError`: connect again there.

    Over a gateway, calls that need PostgreSQL itself raise `NotOverGateway`. A path that no
    campaign has raises `UnknownCampaign`.

    tokens: administers the tokens of sites and managers. fleet: hosts and sites. owners: owners of
    campaigns, and their quotas. pilots: the rules that start agents on batch systems.
    notifications: notification rules. local_agents: agents that `taskq.local_agents` runs now for
    this program. embedded: whether the server is this user's own. begun: paths of the campaigns
    that this client has created or given calls.
    """

    def __init__(
        self, queries: Database | GatewayQueries | StandbyReads, *, embedded: bool = False
    ) -> None:
        self.queries = queries
        self.embedded = embedded
        self.begun: set[str] = set()
        self.tokens = Tokens(queries)
        self.fleet = Fleet(queries)
        self.owners = Owners(queries)
        self.pilots = Pilots(queries)
        self.notifications = Notifications(queries)
        self.local_agents: list[LocalAgents] = []
        self._calls: Calls | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self.queries.close()

    @property
    def database(self) -> Database:
        """The connections to PostgreSQL; raise `NotOverGateway` if there are none."""
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
        """Return the campaign at a path; raise `UnknownCampaign` if there is none."""
        row = self.queries.row("campaign", path=check_path(path))
        if row is None:
            raise UnknownCampaign(path)
        return Campaign(self.queries, row["campaign_id"], path)

    def create_campaign(
        self, spec: CampaignSpec | str, *, exist_ok: bool | None = None
    ) -> Campaign:
        """Create a campaign from a spec, or an empty one from a path; return it.

        Missing campaigns above it are created too. Repeating the call is harmless: a campaign that
        has these settings, or is named by its path alone, is returned as it is; if its settings
        differ, raise `Conflict`. exist_ok: True: change its settings to the spec instead; False:
        raise `Conflict` if it exists at all, so that only one of several callers creates it.
        """
        wanted = CampaignSpec(spec) if isinstance(spec, str) else spec
        body = spec_body(wanted)
        try:
            campaign_id = self.queries.value("create_campaign", path=wanted.path, spec=body)
        except Conflict as error:
            if exist_ok is False:
                raise
            campaign = self.campaign(wanted.path)
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

    def map(
        self,
        function: Callable[..., Any],
        arguments: Iterable[Any],
        *,
        name: str,
        inputs: Iterable[str | Path] = (),
        params: Mapping[str, Any] | None = None,
        on_change: OnChange = "fail",
        trust: Trust = (),
        **settings: Any,
    ) -> Run:
        """Call `function(argument, **params)` for each argument, on agents; return the run.

        name: the path of the campaign that holds the calls. The same call in another program or a
        day later finds them: it computes nothing twice, adds arguments that are new, and tries
        cancelled ones again. inputs: files that `taskq.input_path` finds on the node.

        A function of a module goes by name, and the agents' Python must have the module. A function
        of a notebook or script, a lambda or a closure goes by value, with all that it refers to, 32
        MiB at most; for that a login needs the right `pickler`. Arguments and values may be JSON,
        tuples, sets, bytes, dates and NumPy arrays, and by value any object that can be pickled. A
        payload has 64 KiB at most, a value 64 MiB.

        on_change: what to do if the campaign holds another function, or other params or inputs.
        "fail": raise `FunctionChanged`. "continue": keep its results and compute the rest anew.
        "restart": delete them and begin again. A function of a module counts as changed if its own
        code has changed, or what it uses of the same module.
        trust: classes or modules whose pickles may be read out of results, or True for all; those
        of `__main__` are trusted.
        settings: fields of `CampaignSpec`, such as time_limit_s. By default each call is attempted
        once.

        Raise `InvalidTask` for an argument that cannot be stored; those before it stay. Raise
        `TypeError` for an unknown setting.
        """
        from taskq.compute import runs  # noqa: PLC0415  # few programs compute

        run = runs.start(
            self.queries,
            function,
            arguments,
            name=name,
            inputs=inputs,
            params=params or {},
            on_change=on_change,
            trust=trust,
            settings=settings,
            agents=self.local_agents,
        )
        self.begun.add(run.path)
        return run

    def run(self, name: str, *, trust: Trust = ()) -> Run:
        """Return the run that `map` made at a path, also in another program, without its function.

        It has the calls that are stored now, in the order of seeding. trust: see `map`. Raise
        `NotFound` if there is no such campaign, `Conflict` if it holds no calls of a function.
        """
        from taskq.compute import runs  # noqa: PLC0415  # few programs compute

        return runs.attached(self.queries, name, trust=trust, agents=self.local_agents)

    def runs(self, path: str = "/") -> list[StoredRun]:
        """Return the runs of all programs at and below a path, with counts, by path."""
        from taskq.compute import runs  # noqa: PLC0415  # few programs compute

        return runs.stored(self.queries, path)

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> TaskFuture:
        """Call a function once, on an agent; return a future, with the `key` of its task.

        The same function with the same arguments is called once: a later call, also from another
        program, gets the stored value. The function goes as in `map`, to a campaign below `/calls`
        that is named after the function and what it does. All arguments are the function's; for
        values of classes that you have to `trust`, use `map` or `Executor`.
        """
        from taskq.compute.runs import Calls  # noqa: PLC0415  # few programs compute

        if self._calls is None:
            self._calls = Calls(self.queries, self.local_agents)
        future = self._calls.submit(function, args, kwargs)
        self.begun.add(future.campaign.path)
        return future

    def agents(self, path: str = "/", *, limit: int = 1_000) -> list[AgentView]:
        """Return the agents that serve a campaign, above or below it, longest silent first."""
        rows = self.queries.rows("agents", path=self._known(path), limit=limit)
        return [AgentView(**row) for row in rows]

    def left_agents(self, path: str = "/", *, limit: int = 1_000) -> list[LeftAgent]:
        """Return the agents that left within the last hour, with their reasons, latest first.

        Only those that served the campaign or one above or below it.
        """
        rows = self.queries.rows("left_agents", path=self._known(path), limit=limit)
        return [LeftAgent(**row) for row in rows]

    def refusals(self, path: str = "/") -> list[Refusals]:
        """Return the campaigns at and below a path that agents could not run, ordered by path."""
        return [Refusals(**row) for row in self.queries.rows("refusals", path=self._known(path))]

    def left_over(self, path: str = "/") -> LeftOver:
        """Return how many tasks are unfinished, and how many of them no agent can claim."""
        (row,) = self.queries.rows("left_over", path=check_path(path), offers=None)
        return LeftOver(**row)

    def drain_agents(
        self,
        path: str = "/",
        *,
        site: str | Sequence[str] | None = None,
        name: str | Sequence[str] | None = None,
        host: str | Sequence[str] | None = None,
        dry_run: bool = False,
    ) -> int:
        """Drain agents; return how many were not draining before.

        Applies to agents that serve the campaign or one below it. site, name, host: only agents
        with this value, or one of several; None means any. The answer to their next heartbeat
        carries the order: they claim no more, finish the tasks they hold, and leave. dry_run:
        change nothing.
        """
        named = {"sites": _several(site), "agents": _several(name), "hosts": _several(host)}
        return int(
            self.queries.value("drain_sessions", path=self._known(path), dry_run=dry_run, **named)
        )

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
    ) -> Selection:
        """Choose the best results of a campaign and all below it; iterate over them, best first.

        by: the dotted name of a number, such as `result.score`. n, percent: how many to choose, or
        which percentage of the results that have the number, rounded up. group: a dotted name, such
        as `payload.smiles`: of results with the same value only the best counts, and percent is of
        the groups. Ties are broken by the order of campaigns and of seeding, so that repeated calls
        choose the same. A million results at most, out of any number, in bounded memory.

        so_far: choose from what is done now. Otherwise raise `Conflict` if tasks are unfinished,
        since the best are not known yet. Raise `UsageError` if no result has the number.
        """
        wanted = Best(by, n, percent, lowest, group)
        return select(self.queries, self.campaign(path), wanted, below=below, so_far=so_far)

    def feed(self, target: str, source: str, wanted: Best, *, below: bool = True) -> Fed:
        """Seed a campaign with the best results of another until that ends; see `Feeder`."""
        stages = self.campaign(source), self.campaign(target)
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

        look: called repeatedly with the path of the campaign being checked, and how many of its
        tasks were checked since the last call. Raise `NotFound` if there is no such campaign.
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

        Applies to agents that serve the campaign or one below it; site: only agents of this site.
        silent_s: seconds of silence while the server was up; by default half of the lease, in which
        a live agent sends two heartbeats. lost_since: also retry tasks there that failed through
        lost agents since this instant, or within this duration. dry_run: change nothing.
        Idempotent.
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

    def _known(self, path: str) -> str:
        """Return the path if the campaign exists; raise `UnknownCampaign` otherwise."""
        return self.campaign(path).path


def _several(names: str | Sequence[str] | None) -> list[str] | None:
    """Return names as a list for the statements; None means all."""
    if names is None:
        return None
    return [names] if isinstance(names, str) else list(names)
