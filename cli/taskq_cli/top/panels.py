"""Panels: a campaign, a task, a host, or lists of them, as texts and rows; each reads again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from typing import Final

from taskq import Client
from taskq.diagnosis.bans import PlaceKind
from taskq.diagnosis.campaign_tree import CampaignNode, Tree, node_texts
from taskq.diagnosis.facts import read_facts
from taskq.diagnosis.fleet import Fleet
from taskq.diagnosis.odd_results import kept_odd_results
from taskq.diagnosis.places import Place
from taskq.diagnosis.reasons import Explanation
from taskq.diagnosis.rules import explain_campaign
from taskq.diagnosis.servers import read_servers
from taskq.model.errors import NotFound
from taskq.model.views import AgentView, Attempt, FailureCause
from taskq.model.words import as_json, command, counted, duration, instant, progress, rate
from taskq_cli.display import render
from taskq_cli.display.fleet import place_columns, place_record, sample_line
from taskq_cli.display.overview import counts, pace_lines, shown_state
from taskq_cli.display.text import one_line

#: Most rows and characters that are shown, and most campaigns whose failed tasks are shown.
MOST_ROWS: Final = 500
MOST_AGENTS: Final = 20_000
MOST_FAILED: Final = 20
MOST_CAMPAIGNS: Final = 5
MOST_CHARS: Final = 4_000
MOST_VERDICTS: Final = 5
#: Most campaigns that are searched for a task's key.
MOST_ASKED: Final = 50
#: Causes among which a class finds its example.
MOST_CAUSES: Final = 20
#: From so many columns of a terminal on, the tree has one more.
WIDE: Final = 100
#: Width of a bar of tasks by status, in a narrow tree and in a wide one.
_BARS: Final = (6, 12)
#: Between two columns of a table.
_PADDING: Final = 2
_AGENTS: Final = ("agent", "host", "site", "working", "silent", "state", "campaign")
#: Columns for the name of a gateway.
_NAME: Final = 30
#: Figures of the tree, by what `node_texts` calls them.
_TEXTS: Final = {
    "share": "final",
    "waiting": "waiting",
    "working": "working",
    "failed": "failed",
    "rate": "rate",
    "eta": "eta",
    "agents": "agents",
}


@dataclass(frozen=True, slots=True)
class Subject:
    """What keys act on: a campaign, or a task of it."""

    path: str
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """A line of a table. name: what it is about. opens: what Enter opens."""

    name: str
    cells: Sequence[str]
    opens: Opening | None = None


@dataclass(frozen=True, slots=True)
class Panel:
    """What a screen shows: pictures above, a table below."""

    pictures: Sequence[render.Picture] = ()
    titles: Sequence[str] = ()
    rows: Sequence[Row] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Opening:
    """What can be opened. read: called in a thread, repeatedly while it is shown."""

    title: str
    subject: Subject
    read: Callable[[], Panel]


class Panels:
    """Makes the panels of a queue. tree: returns the tree as it was last read."""

    def __init__(self, client: Client, tree: Callable[[], Tree]) -> None:
        self._client = client
        self._tree = tree
        self._read_odd = kept_odd_results()
        self._fleet = Fleet(client.queries, self._read_odd)

    def about(self, what: str, subject: Subject) -> Opening:
        """Return one of the panels that keys open.

        explanation: why a campaign or a task does not run, or not faster. failures: whose fault
        they are, and failed tasks. hosts, sites: a comparison of those that serve a campaign.
        agents: those that serve it, longest silent first. owners: of it and all below it, with
        their quotas. servers: the gateways, and the database's server.
        """
        path = subject.path
        if what == "explanation":
            title = f"explain {path} {subject.key or ''}".rstrip()
            return Opening(title, subject, partial(self._explanation, subject))
        openings: dict[str, tuple[str, Callable[[], Panel]]] = {
            "failures": (f"failures of {path}", partial(self._failures, path)),
            "hosts": (f"hosts of {path}", partial(self._places, "host", path)),
            "sites": (f"sites of {path}", partial(self._places, "site", path)),
            "agents": (f"agents of {path}", partial(self._agents, path)),
            "owners": (f"owners in {path}", partial(self._owners, path)),
            "servers": ("gateways and database", self._servers),
        }
        title, read = openings[what]
        return Opening(title, Subject(path), read)

    def campaign(self, path: str) -> Opening:
        """Return a campaign: counts, pace, why it does not run, failures."""
        return Opening(path, Subject(path), partial(self._campaign, path))

    def task(self, path: str, key: str) -> Opening:
        """Return a task with its history."""
        subject = Subject(path, key)
        return Opening(f"{path} {key}", subject, partial(self._task, path, key))

    def find_task(self, path: str, key: str) -> list[str]:
        """Return the campaigns at and below a path that have a task with this key.

        Raise `NotFound` if the path has none, and there are too many to ask below it.
        """
        nodes = [node.own for node in self._tree().within(path) if node.own.total]
        paths = [one.path for one in nodes if one.path != path]
        found = [path] if self._has_task(path, key) else []
        if len(paths) > MOST_ASKED and not found:
            raise NotFound(f"{path} has no task {key}; choose the campaign below it that has it")
        return found or [one for one in paths if self._has_task(one, key)]

    def _has_task(self, path: str, key: str) -> bool:
        try:
            self._client.campaign(path).task(key)
        except NotFound:
            return False
        return True

    def host(self, path: str, name: str) -> Opening:
        """Return a host with its agents that serve a campaign."""
        return Opening(f"host {name}", Subject(path), partial(self._host, path, name))

    def _servers(self) -> Panel:
        found = read_servers(self._client.queries)
        facts = [] if found.database is None else found.database.facts()
        lines = [f"{title:<15}  {text}" for title, text in facts]
        if not found.gateways:
            lines.append("No gateway is known here; each reports every 10 s.")
        titles = ["gateway", "release", "sessions", "exchanges", "state"]
        rows = [
            Row(
                one.name,
                [
                    render.shortened(one_line(one.name), _NAME),
                    *(one_line(one.release), f"{one.sessions:,}", rate(one.per_s), one.state),
                ],
            )
            for one in found.gateways[:MOST_ROWS]
        ]
        return Panel(_paragraphs(lines), titles if rows else (), rows)

    def _owners(self, path: str) -> Panel:
        owners = self._client.owners.list(path)
        texts = [one.texts() for one in owners[:MOST_ROWS]]
        line = f"{counted(len(owners), 'owner')}, each with what all of its campaigns have."
        rows = [Row(one["owner"], _safe(one.values())) for one in texts]
        return Panel(_paragraphs([line]), [*texts[0]] if texts else (), rows)

    def _campaign(self, path: str) -> Panel:
        campaign = self._client.campaign(path)
        node = self._tree().nodes.get(path)
        status = campaign.status() if node is None else node.status
        forecast = campaign.forecast() if node is None else node.forecast
        lines = [] if node is None or not node.why else [f"why        {one_line(node.why)}"]
        if status.unfinished:
            lines += pace_lines(forecast)
        if (owner := self._client.owners.of(path)) is not None:
            lines.append(f"owner      {one_line(owner)}")
        if status.failures or status.losses:
            lines.append(f"attempts   {status.failures:,} failed, {status.losses:,} lost")
        title = f"{one_line(path)}  {shown_state(status)}"
        pictures = [render.campaign(title, counts(status), lines), *_reasons(self._explained(path))]
        return Panel(pictures, *self._failed_tasks(path))

    def _explanation(self, subject: Subject) -> Panel:
        if subject.key is None:
            return Panel(_reasons(self._explained(subject.path)))
        return Panel(_reasons(self._client.campaign(subject.path).explain(subject.key)))

    def _explained(self, path: str) -> Explanation:
        return explain_campaign(read_facts(self._client.queries, path, read_odd=self._read_odd))

    def _failed_tasks(self, path: str) -> tuple[Sequence[str], list[Row]]:
        nodes = [node.own for node in self._tree().within(path) if node.own.failed]
        rows = []
        for one in nodes[:MOST_CAMPAIGNS]:
            found = self._client.queries.rows(
                "failures", campaign=one.campaign_id, after=0, limit=MOST_FAILED
            )
            for row in found:
                why = one_line(row["error"] or "")[:MOST_CHARS]
                cells = [row["key"], row["error_class"] or "", row["host"] or "", why]
                rows.append(Row(row["key"], _safe(cells), self.task(one.path, row["key"])))
        return ["failed task", "class", "host", "error"], rows[:MOST_ROWS]

    def _failures(self, path: str) -> Panel:
        verdicts = self._client.fleet.failures(path)
        examples: dict[tuple[str, str], FailureCause] = {}
        for campaign in [*dict.fromkeys(one.campaign for one in verdicts)][:MOST_CAMPAIGNS]:
            for cause in self._client.campaign(campaign).failure_causes(MOST_CAUSES, below=False):
                examples.setdefault((campaign, cause.error_class), cause)
        lines = []
        for one in verdicts:
            lines.append(
                f"{one.error_class or '(none)'} in {one.campaign}: "
                f"{counted(one.attempts, 'attempt')}; {one.fault}: {one.why}"
                f"{''.join(f'; {ban}' for ban in one.bans)}."
            )
            if (found := examples.get((one.campaign, one.error_class))) is not None:
                error = " | ".join(filter(None, (found.example_error, found.example_line)))
                lines += [f"Such as {found.example_key}: {error}"] if error else []
        lines += [f"Seen: {one.sample}." for one in verdicts[:1]]
        pictures = _paragraphs(lines or ["No attempt in the sample of the latest has failed."])
        return Panel(pictures, *self._failed_tasks(path))

    def _task(self, path: str, key: str) -> Panel:
        campaign = self._client.campaign(path)
        task, attempts = campaign.task(key), campaign.attempts(key)
        facts = [
            f"{task.status}, priority {task.priority}, {counted(len(attempts), 'attempt')} ended",
            f"payload  {as_json(task.payload)[:MOST_CHARS]}",
        ]
        if far := progress(task.progress, task.progress_note):
            facts.insert(1, far)
        if attempts:
            facts += _of_attempt(attempts[-1])
        rows = [
            Row(f"{number}", _safe([instant(one.at), one.what, one.host or "", one.detail]))
            for number, one in enumerate(campaign.history(key))
        ]
        pictures = [*_reasons(campaign.explain(key)), *_paragraphs(facts)]
        return Panel(pictures, ["at", "what", "host", "detail"], rows[:MOST_ROWS])

    def _places(self, kind: PlaceKind, path: str) -> Panel:
        places = self._fleet.hosts(path) if kind == "host" else self._fleet.sites(path)
        shown = {one.title: one for one in place_columns(kind)}
        # What matters most first: the rest may be beyond the edge of the screen.
        first = [kind, "state", "agents", "attempts", "failed", "run", "times", "use"]
        ranked = [shown[name] for name in dict.fromkeys([*first, *shown])]
        records = [place_record(one) for one in places[:MOST_ROWS]]
        columns = [column for column in ranked if any(map(column.text, records))]
        lines = [_verdict(one) for one in places if one.verdict or one.ban][:MOST_VERDICTS]
        seen = _paragraphs([sample_line(one.sample) for one in places[:1]])
        return Panel(
            [*chain(*(lines or [_paragraphs([f"No {kind} stands out."])])), *seen],
            [one.title for one in columns],
            [
                Row(
                    one.name,
                    [column.text(record) for column in columns],
                    self.host(path, one.name) if kind == "host" else None,
                )
                for one, record in zip(places, records, strict=False)
            ],
        )

    def _host(self, path: str, name: str) -> Panel:
        places = [one for one in self._fleet.hosts(path) if one.name == name]
        columns = place_columns("host")
        facts = [
            f"{column.title:<9}  {text}"
            for one in places
            for column in columns
            if (text := column.text(place_record(one)))
        ]
        lines = [_verdict(one) for one in places]
        pictures = [*chain(*lines), *_paragraphs(facts)]
        agents = self._client.agents(path, limit=MOST_AGENTS)
        here = [one for one in agents if one.host == name]
        return Panel(pictures, _AGENTS, self._agent_rows(path, here))

    def _agents(self, path: str) -> Panel:
        agents = self._client.agents(path, limit=MOST_ROWS)
        left = self._client.left_agents(path, limit=MOST_ROWS)
        lines = [f"{counted(len(agents), 'agent')} at work, {len(left):,} left within the hour."]
        lines += [f"{one.agent} on {one.host} left: {one.reason or 'lost'}." for one in left[:3]]
        return Panel(_paragraphs(lines), _AGENTS, self._agent_rows(path, agents))

    def _agent_rows(self, path: str, agents: Iterable[AgentView]) -> list[Row]:
        rows = []
        for one in islice(agents, MOST_ROWS):
            state = "draining" if one.draining else "slowed" if one.trouble or one.suspect else ""
            ahead = f" +{one.working - one.slots}" if one.working > one.slots else ""
            working = f"{min(one.working, one.slots)}/{one.slots}{ahead}"
            cells = [one.agent, one.host, one.site, working]
            cells += [duration(one.silent_s), state, one.path]
            rows.append(Row(f"{one.session_id}", _safe(cells), self.host(path, one.host)))
        return rows


def tree_panel(nodes: Sequence[CampaignNode], width: int, opens: Callable[[str], Opening]) -> Panel:
    """Return campaigns as a table that fits a terminal of this width."""
    names = [*_TEXTS] if width >= WIDE else [name for name in _TEXTS if name != "waiting"]
    titles = [_TEXTS[name] for name in names]
    bar = _BARS[width >= WIDE]
    least = min((node.depth for node in nodes), default=0)
    others = []
    for node in nodes:
        texts = dict(node_texts(node))
        texts["share"] = f"{render.bar(counts(node.status), bar)} {texts['share']:>7}".strip()
        if node.why or node.status.finished:
            texts["eta"] = shown_state(node.status)
        others.append([texts[name] for name in names])
    widths = [max(map(len, column)) for column in zip(titles, *others, strict=True)]
    room = max(width - sum(widths) - _PADDING * (len(widths) + 1), render.MIN_WIDTH)
    rows = []
    for node, cells in zip(nodes, others, strict=True):
        path, indent = node.status.path, "  " * (node.depth - least)
        name = path if not indent else path.rpartition("/")[2]
        label = indent + render.shortened(one_line(name), max(room - len(indent), 1))
        rows.append(Row(path, [label.ljust(room), *cells], opens(path)))
    return Panel(titles=["campaign", *titles], rows=rows)


def tree_line(node: CampaignNode) -> str:
    """Return a line about the campaign that is chosen in the tree."""
    status = node.status
    parts = [f"{status.path}  {shown_state(status)}", f"{counted(status.total, 'task')}"]
    parts += [f"{status.delayed:,} delayed"] if status.delayed else []
    if status.unfinished and (ends := node.forecast.text()):
        parts.append(f"ETA {ends}")
    if node.why:
        parts.append(node.why)
    return one_line("; ".join(parts))


def _reasons(explanation: Explanation) -> list[render.Picture]:
    """Return an explanation. Commands stay whole, so that people can paste them."""
    found = _paragraphs([explanation.headline])
    for number, reason in enumerate(explanation.reasons, 1):
        found.append(render.Paragraph(f"{number}. ", one_line(reason.text)))
        found += _commands(reason.commands)
    return found


def _verdict(one: Place) -> list[render.Picture]:
    """Return what is wrong with a host or site, and what to do."""
    lines, commands = [], [one.proposal]
    if (ban := one.ban) is not None:
        lines.append(f"{ban.name} is {ban.about}.")
        commands = [command(one.kind, "unban", names=[one.name])]
    if one.verdict:
        lines.append(f"{one.name}: {one.verdict}.")
    if one.kind == "site" and one.choice:  # slow hosts are more often their site's
        why = "; ".join(filter(None, (one.verdict, one.loss)))
        lines[-1:] = [f"{one.name}: {why}. Ban it only if you can do without it."]
        commands.append(one.choice)
    return [*_paragraphs(lines), *_commands(filter(None, commands))]


def _of_attempt(one: Attempt) -> list[str]:
    """Return how an attempt ended, with the end of its output."""
    why = ": ".join(filter(None, (one.error_class, one.error)))
    facts = [f"last     attempt {one.attempt} {one.outcome} on {one.host}; {why}"[:MOST_CHARS]]
    if one.result is not None:
        facts.append(f"result   {as_json(one.result)[:MOST_CHARS]}")
    if one.tail:
        facts += ["output   its end:", *one.tail[-MOST_CHARS:].splitlines()]
    return facts


def _paragraphs(texts: Iterable[str]) -> list[render.Picture]:
    return [render.Paragraph("", one_line(one)) for one in texts]


def _commands(commands: Iterable[str]) -> list[render.Picture]:
    return [render.Paragraph("   $ ", one_line(one)) for one in commands]


def _safe(cells: Iterable[str]) -> list[str]:
    return [one_line(one) for one in cells]
