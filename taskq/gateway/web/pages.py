"""Contents of each page: read with the functions of the commands, bounded, kept for seconds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from itertools import islice, pairwise
from typing import Any, Final, TypeVar

from taskq.api.client import Client
from taskq.campaign.campaign import Campaign
from taskq.db.owners import Owner, ShareBy
from taskq.db.stones import unknown_campaign
from taskq.diagnosis.blame import FailureVerdict
from taskq.diagnosis.campaign_tree import CampaignNode, Tree, parent, usual_levels
from taskq.diagnosis.explaining import explained
from taskq.diagnosis.fleet import Fleet
from taskq.diagnosis.odd_readings import kept_odd_results
from taskq.diagnosis.places import Place
from taskq.diagnosis.reasons import Explanation
from taskq.diagnosis.sample import ended_attempts
from taskq.diagnosis.servers import read_servers
from taskq.diagnosis.shared_readings import Readings
from taskq.diagnosis.tables import owners as owners_table
from taskq.diagnosis.tables import places as places_table
from taskq.diagnosis.tables.tasks import CLASSES
from taskq.diagnosis.ticker import Ticker
from taskq.diagnosis.trend import Point, intervals
from taskq.diagnosis.troubles import TroubleList, read_troubles
from taskq.gateway.web.access import Viewer
from taskq.gateway.web.asked import PAGE_ROWS, Asked, Turn, whole_number
from taskq.gateway.web.charts import Line, histogram, timeline
from taskq.gateway.web.heat import heat_values
from taskq.gateway.web.hits import numeric_fields, read_hits
from taskq.gateway.web.molecules import smiles_of
from taskq.gateway.web.recorded import latest
from taskq.gateway.web.rendering import address, figure, number, render, visible
from taskq.model.columns import Column
from taskq.model.words import counted, rate

T = TypeVar("T")

#: How far back the front page goes.
YESTERDAY: Final = timedelta(days=1)
#: Seconds for which readings are kept.
QUICK_S: Final = 3.0
SAMPLE_S: Final = 15.0
MANY_TRIED: Final = 1_000
TREND_S: Final = 30.0
HITS_S: Final = 60.0
#: Rows that pages show.
#: Places of which a page says what stands out.
MOST_VERDICTS: Final = 20
MOST_LEFT: Final = 100
MOST_OWNERS: Final = 500
MOST_CAUSES: Final = 10
MOST_RETRIED: Final = 5
#: Failed attempts that are grouped: grouping reads each of them.
MOST_GROUPED: Final = 10_000
#: Spans of time for which a page can show a trend.
SPANS: Final[Mapping[str, tuple[str, timedelta | None]]] = {
    "3h": ("3 hours", timedelta(hours=3)),
    "1d": ("a day", timedelta(days=1)),
    "7d": ("a week", timedelta(days=7)),
    "all": ("a year", None),
}
_TABLE_ROWS: Final = 30


class Pages:
    """The pages; each method returns one as HTML."""

    def __init__(
        self, client: Client, ticker: Ticker, readings: Readings, *, draws: bool = False
    ) -> None:
        """draws: whether there are pictures of molecules."""
        self._draws = draws
        self._client = client
        self._ticker = ticker
        self._readings = readings
        self._read_odd = kept_odd_results()

    def _common(self, asked: Asked, page: str) -> dict[str, Any]:
        return asked.common(page) | {"behind_s": self._client.behind_s, "draws": self._draws}

    async def overview(self, asked: Asked) -> str:
        """Return the tree of campaigns."""
        tree = await self._tree(asked.path)
        below = _below(tree, asked, "/")
        servers, whole = None, asked.viewer.may("/")
        wrong = await self._readings.get(
            ("wrong", asked.path, whole), SAMPLE_S, lambda: self._wrong(asked.path, whole)
        )
        if whole:  # they are the whole queue's
            servers = await self._readings.get(
                "servers", SAMPLE_S, lambda: read_servers(self._client.queries)
            )
        return render(
            "overview.html",
            **self._common(asked, "overview"),
            tops=asked.viewer.paths,
            servers=servers,
            wrong=wrong,
            **below,
        )

    async def campaign(self, asked: Asked) -> str:
        """Return all about one campaign."""
        path, query = asked.path, asked.query
        tree = await self._tree(path)
        node = tree.nodes[path]
        campaign = Campaign(self._client.queries, node.own.campaign_id, path)
        span = query.get("span", "1d")
        span = span if span in SPANS else "1d"
        failed = node.status.failures or node.status.losses
        # An explanation reads a sample of the attempts, which is costly where there are many.
        explained_s = QUICK_S if ended_attempts(node.status) < MANY_TRIED else SAMPLE_S
        whole = asked.viewer.may("/")
        own_failed = node.own.failures + node.own.losses

        async def read(what: str, kept_s: float, source: Callable[[], T], *of: object) -> T:
            return await self._readings.get((what, path, *of), kept_s, source)

        (explanation, owner, hedges), (points, verdicts, causes) = await asyncio.gather(
            asyncio.gather(
                read("explain", explained_s, lambda: self._explained(path, whole), whole),
                read("owner", QUICK_S, lambda: self._client.owners.of(path)),
                read("hedges", QUICK_S, campaign.hedges),
            ),
            asyncio.gather(
                read("trend", TREND_S, lambda: campaign.trend(SPANS[span][1]), span),
                read("failures", SAMPLE_S, lambda: self._client.fleet.failures(path))
                if failed
                else _nothing(),
                read(
                    "causes",
                    SAMPLE_S,
                    lambda: campaign.failure_causes(MOST_CAUSES, below=False),
                )
                if 0 < own_failed <= MOST_GROUPED
                else _nothing(),
            ),
        )
        below = _below(tree, asked, "/campaign")
        return render(
            "campaign.html",
            **self._common(asked, "campaign"),
            node=node,
            above=_above(path, asked.viewer),
            explanation=explanation,
            hedges=hedges,
            owner=owner,
            span=span,
            spans={name: words for name, (words, _) in SPANS.items()},
            charts=_charts(points),
            points=_thinned(points),
            verdicts=verdicts,
            causes=causes,
            error_classes=_first_classes(verdicts),
            classes=[*_where(path, verdicts), *CLASSES],
            links={
                "campaign": lambda verdict: address("/campaign", path=verdict.campaign),
                "example": lambda cause: address("/task", path=path, key=cause.example_key),
            },
            ungrouped=own_failed > MOST_GROUPED,
            recorded=await read("acts", QUICK_S, lambda: latest(self._client, path, whole), whole),
            **below | {"nodes": below["nodes"][1:], "least": node.depth + 1},
            **await self._hits(campaign, node, query),
        )

    def _wrong(self, path: str, whole: bool) -> TroubleList:
        queries = self._client.queries
        return read_troubles(queries, path, since=YESTERDAY, whole=whole, read_odd=self._read_odd)

    def _explained(self, path: str, whole: bool) -> Explanation:
        return explained(self._client.queries, path, whole=whole, read_odd=self._read_odd)

    async def _tree(self, path: str) -> Tree:
        """Return a tree that has this campaign; raise `UnknownCampaign`."""
        tree = await self._ticker.tree()
        if path not in tree.nodes:
            await asyncio.to_thread(self._client.campaign, path)
            tree = await self._ticker.tree(anew=True)
        if path not in tree.nodes:  # it has been removed meanwhile
            raise unknown_campaign(self._client.queries, path)
        return tree

    async def changed(self, path: str) -> None:
        """Show a campaign anew, since a viewer has changed it."""
        self._readings.forget(path)
        await self._ticker.tree(anew=True)

    async def hosts(self, asked: Asked) -> str:
        """Return the comparison of hosts."""
        return await self._places(asked, "hosts")

    async def sites(self, asked: Asked) -> str:
        """Return the comparison of sites."""
        return await self._places(asked, "sites")

    async def _places(self, asked: Asked, kind: str) -> str:
        path, fleet = asked.path, Fleet(self._client.queries, self._read_odd)
        read = fleet.hosts if kind == "hosts" else fleet.sites
        places: list[Place] = await self._readings.get((kind, path), SAMPLE_S, lambda: read(path))
        turn = Turn.of(asked, len(places))
        return render(
            "places.html",
            **self._common(asked, kind),
            columns=places_table.columns("host" if kind == "hosts" else "site"),
            places=places[turn.first : turn.first + PAGE_ROWS],
            bans=asked.acts,
            may=asked.viewer.may,
            striking=[place for place in places if place.verdict][:MOST_VERDICTS],
            turn=turn,
        )

    async def heat(self, asked: Asked) -> str:
        """Return the heat map of hosts or sites."""
        found = await heat_values(asked, self._client.queries, self._readings)
        return render("heat.html", **self._common(asked, "heat"), **found)

    async def owners(self, asked: Asked) -> str:
        """Return the owners of a campaign and of all below it, with their quotas."""
        path, within, owners_of = asked.path, asked.viewer.paths, self._client.owners
        owners: list[Owner]
        by: ShareBy
        owners, by = await self._readings.get(
            ("owners", path, within),
            SAMPLE_S,
            lambda: (owners_of.list(path, within=within), owners_of.shared_by()),
        )
        return render(
            "owners.html",
            **self._common(asked, "owners"),
            columns=owners_table.columns(by),
            owners=owners[:MOST_OWNERS],
            whole=len(owners),
        )

    async def agents(self, asked: Asked) -> str:
        """Return the agents that serve a campaign."""
        path, wanted = asked.path, asked.part

        def read() -> tuple[Any, ...]:
            client = self._client
            there = client.agent_counts(path)
            turn = Turn.of(asked, there.agents)
            agents = client.agents(path, limit=turn.first + PAGE_ROWS)[turn.first :]
            return there, turn, agents, client.left_agents(path, limit=MOST_LEFT), client.brake()

        there, turn, agents, left, brake = await self._readings.get(
            ("agents", path, wanted), QUICK_S, read
        )
        return render(
            "agents.html",
            **self._common(asked, "agents"),
            agents=agents,
            there=there,
            turn=turn,
            left=left,
            brake=None if brake is None else brake.seen(whole=asked.viewer.may("/")),
        )

    async def task(self, asked: Asked) -> str:
        """Return a task with its attempts."""
        path, key = asked.path, asked.query.get("key", "")
        whole = asked.viewer.may("/")

        def read() -> dict[str, Any]:
            campaign = self._client.campaign(path)
            task, attempts = campaign.task(key), campaign.attempts(key)[::-1]
            return {
                "task": task,
                "attempts": attempts,
                "smiles": smiles_of(task.payload, *(attempt.result for attempt in attempts)),
                "events": campaign.history(key),
                "explanation": campaign.explain(key, whole=whole),
            }

        known = await self._readings.get(("task", path, key, whole), QUICK_S, read)
        return render(
            "task.html", **self._common(asked, "task"), above=_above(path, asked.viewer), **known
        )

    async def _hits(
        self, campaign: Campaign, node: CampaignNode, query: Mapping[str, str]
    ) -> dict[str, Any]:
        """Return the best results of the campaign's own tasks, and their distribution."""
        found: dict[str, Any] = {"fields": [], "field": "", "order": "highest", "hits": None}
        if not node.own.done:
            return found
        campaign_id, database = campaign.campaign_id, self._client.queries
        found["fields"], ranking = await self._readings.get(
            ("fields", campaign_id),
            HITS_S,
            lambda: (numeric_fields(database, campaign_id), campaign.spec().ranking),
        )
        by, lowest = ranking or ("", False)
        declared = by.removeprefix("result.") if by.startswith("result.") else ""
        field = query.get("field") or declared or next(iter(found["fields"]), "")
        if not field:
            return found
        usual = "lowest" if lowest and field == declared else "highest"
        ascending = query.get("order", usual) == "lowest"
        hits = await self._readings.get(
            ("hits", campaign_id, field, ascending),
            HITS_S,
            lambda: read_hits(database, campaign_id, field, ascending=ascending),
        )
        found |= {"field": field, "order": "lowest" if ascending else "highest", "hits": hits}
        if hits is not None:
            words = (
                f"{number(hits.numbers)} results from {figure(hits.low)} to {figure(hits.high)}, "
                f"half of them below {figure(hits.median)}."
            )
            found["histogram"] = histogram(
                f"Distribution of {visible(field)}", words, hits.bins, (hits.low, hits.high), figure
            )
        return found


def levels_of(query: Mapping[str, str]) -> int | None:
    """Return how many levels of campaigns a query asks for; None means as many as usual."""
    return whole_number(query, "levels")


def _below(tree: Tree, asked: Asked, page: str) -> dict[str, Any]:
    """Return what a page shows of the tree at and below a campaign."""
    counts = tree.levels(asked.path)
    levels = levels_of(asked.query) or usual_levels(counts)
    nodes, more = tree.shown(asked.path, levels)
    return {
        "nodes": nodes,
        "least": min((node.depth for node in nodes), default=0),
        "more": more,
        "levels": levels,
        "depths": range(1, len(counts)),
        "tree_page": page,
        "live": address("/live", path=asked.path, levels=levels),
    }


def _where(path: str, verdicts: Iterable[FailureVerdict]) -> list[Column[FailureVerdict]]:
    """Return the column with the campaign's path, if there are verdicts on others than this."""
    return [Column("campaign")] if any(verdict.campaign != path for verdict in verdicts) else []


def _first_classes(verdicts: Iterable[FailureVerdict]) -> list[str]:
    """Return the classes of failures that a page offers to retry."""
    classes = dict.fromkeys(verdict.error_class for verdict in verdicts if verdict.error_class)
    return list(islice(classes, MOST_RETRIED))


async def _nothing() -> list[Any]:
    return []


def _above(path: str, viewer: Viewer) -> list[str]:
    """Return the paths above this one that the viewer may see, from the top."""
    found = []
    above = parent(path)
    while above is not None and viewer.may(above):
        found.append(above)
        above = parent(above)
    return found[::-1]


def _charts(points: Sequence[Point]) -> list[Any]:
    """Return the charts of a trend."""
    rates = intervals(points)
    if not rates:
        return []
    last, most = rates[-1], max(reading.ended_per_s for reading in rates)
    ended = Line("tasks that ended", "ended", [(r.begin, r.end, r.ended_per_s) for r in rates])
    bad = Line("attempts that failed", "bad", [(r.begin, r.end, r.failures_per_s) for r in rates])
    pairs = list(pairwise(points))
    agents = Line("agents", "agents", [(a.at, b.at, float(a.agents)) for a, b in pairs])
    working = Line("running tasks", "working", [(a.at, b.at, float(a.working)) for a, b in pairs])
    crowd = max(point.agents for point in points)
    return [
        timeline(
            "Rate over time",
            f"{rate(last.ended_per_s)} at last, {rate(most)} at most.",
            [ended, bad],
            rate,
        ),
        timeline(
            "Agents and running tasks over time",
            f"{counted(points[-1].agents, 'agent')} at last, {number(crowd)} at most.",
            [agents, working],
            lambda value: f"{value:,.0f}",
        ),
    ]


def _thinned(points: Sequence[Point]) -> list[Point]:
    """Return evenly spaced points for a table, the last first."""
    step = max(1, -(-len(points) // _TABLE_ROWS))
    return list(islice(reversed(points), 0, None, step))
