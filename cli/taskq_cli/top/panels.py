"""Panels: a campaign, a task, a host, or lists of them, as texts and rows; each reads again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from typing import Final

from taskq import Client
from taskq.diagnosis.bans import PlaceKind, for_campaign
from taskq.diagnosis.campaign_tree import Tree
from taskq.diagnosis.explaining import explained
from taskq.diagnosis.fleet import Fleet
from taskq.diagnosis.odd_readings import kept_odd_results
from taskq.diagnosis.places import Place
from taskq.diagnosis.reasons import Explanation
from taskq.diagnosis.servers import read_servers
from taskq.diagnosis.tables import owners as owners_table
from taskq.diagnosis.tables import places as places_table
from taskq.diagnosis.tables.agents import AGENTS, marks, why_left
from taskq.diagnosis.tables.campaigns import state
from taskq.diagnosis.tables.gateways import GATEWAYS, NONE_KNOWN
from taskq.diagnosis.tables.tasks import EVENTS, FAILURES
from taskq.diagnosis.troubles import read_troubles
from taskq.model.columns import Column, without
from taskq.model.errors import NotFound
from taskq.model.views import AgentView, Attempt, Failure, FailureCause
from taskq.model.words import as_json, command, counted, instant, progress
from taskq_cli.display import render
from taskq_cli.display.overview import counts, pace_lines
from taskq_cli.display.text import one_line
from taskq_cli.top.panel import MOST_ROWS, Opening, Panel, Subject, table

#: Most characters that are shown, and most campaigns whose failed tasks are shown.
MOST_AGENTS: Final = 20_000
MOST_FAILED: Final = 20
MOST_CAMPAIGNS: Final = 5
MOST_CHARS: Final = 4_000
MOST_VERDICTS: Final = 5
#: Most campaigns that are searched for a task's key.
MOST_ASKED: Final = 50
#: Causes among which a class finds its example.
MOST_CAUSES: Final = 20
#: Columns of failed tasks below other things; the error comes last, where it may be cut.
_FAILED: Final = (
    replace(FAILURES[0], title="failed task", value=lambda failure: failure.key),
    *without(FAILURES[1:], "attempt", "ended"),
)


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
        troubles: what is wrong, what costs most first.
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
            "troubles": (f"wrong in {path}", partial(self._troubles, path)),
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
        paths = [node.path for node in nodes if node.path != path]
        found = [path] if self._has_task(path, key) else []
        if len(paths) > MOST_ASKED and not found:
            raise NotFound(f"{path} has no task {key}; choose the campaign below it that has it")
        return found or [campaign for campaign in paths if self._has_task(campaign, key)]

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
        lines += [] if found.gateways else [NONE_KNOWN]
        return table(_paragraphs(lines), GATEWAYS, found.gateways, lambda gateway: gateway.name)

    def _owners(self, path: str) -> Panel:
        owners = self._client.owners.list(path)
        by = self._client.owners.shared_by()
        line = f"{counted(len(owners), 'owner')}, each with what all of its campaigns have."
        return table(
            _paragraphs([line]), owners_table.columns(by), owners, lambda owner: owner.owner
        )

    def _campaign(self, path: str) -> Panel:
        campaign = self._client.campaign(path)
        node = self._tree().nodes.get(path)
        status = campaign.status() if node is None else node.status
        forecast = campaign.forecast() if node is None else node.forecast
        lines = pace_lines(forecast) if status.unfinished else []
        if (owner := self._client.owners.of(path)) is not None:
            lines.append(f"owner      {one_line(owner)}")
        if status.failures or status.losses:
            lines.append(f"attempts   {status.failures:,} failed, {status.losses:,} lost")
        title = f"{one_line(path)}  {state(status)}"
        pictures = [render.campaign(title, counts(status), lines), *_reasons(self._explained(path))]
        return self._failed_tasks(path, pictures)

    def _explanation(self, subject: Subject) -> Panel:
        if subject.key is None:
            return Panel(_reasons(self._explained(subject.path)))
        return Panel(_reasons(self._client.campaign(subject.path).explain(subject.key)))

    def _troubles(self, path: str) -> Panel:
        found = read_troubles(self._client.queries, path, read_odd=self._read_odd)
        looked = f"A keeper looked at {instant(found.looked_at)}." if found.looked_at else ""
        pictures = _paragraphs([f"{len(found.open):,} that nobody knows of. {looked}".rstrip()])
        for trouble in found.troubles:
            known = f" [{trouble.known}]" if trouble.known else ""
            mark = f"{trouble.trouble_id or '-'}. "
            pictures.append(render.Paragraph(mark, one_line(f"{trouble.full_text}{known}")))
            pictures += _commands(trouble.commands)
        return Panel(pictures)

    def _explained(self, path: str) -> Explanation:
        return explained(self._client.queries, path, read_odd=self._read_odd)

    def _failed_tasks(self, path: str, pictures: Sequence[render.Picture]) -> Panel:
        nodes = [node.own for node in self._tree().within(path) if node.own.failed]
        failed = [
            Failure(node.path, **row)
            for node in nodes[:MOST_CAMPAIGNS]
            for row in self._client.queries.rows(
                "failures", campaign=node.campaign_id, after=0, limit=MOST_FAILED
            )
        ]
        return table(
            pictures,
            _FAILED,
            failed,
            name=lambda failure: failure.key,
            opens=lambda failure: self.task(failure.campaign, failure.key),
        )

    def _failures(self, path: str) -> Panel:
        verdicts = self._client.fleet.failures(path)
        examples: dict[tuple[str, str], FailureCause] = {}
        for campaign in [*dict.fromkeys(verdict.campaign for verdict in verdicts)][:MOST_CAMPAIGNS]:
            for cause in self._client.campaign(campaign).failure_causes(MOST_CAUSES, below=False):
                examples.setdefault((campaign, cause.error_class), cause)
        lines = []
        for verdict in verdicts:
            lines.append(
                f"{verdict.error_class or '(none)'} in {verdict.campaign}: "
                f"{counted(verdict.attempts, 'attempt')}; {verdict.fault}: {verdict.why}"
                f"{''.join(f'; {ban}' for ban in verdict.bans)}."
            )
            if (found := examples.get((verdict.campaign, verdict.error_class))) is not None:
                error = " | ".join(filter(None, (found.example_error, found.example_line)))
                lines += [f"Such as {found.example_key}: {error}"] if error else []
        lines += [f"Seen: {verdict.sample}." for verdict in verdicts[:1]]
        pictures = _paragraphs(lines or ["No attempt in the sample of the latest has failed."])
        return self._failed_tasks(path, pictures)

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
        pictures = [*_reasons(campaign.explain(key)), *_paragraphs(facts)]
        return table(pictures, EVENTS, campaign.history(key))

    def _places(self, kind: PlaceKind, path: str) -> Panel:
        places = self._fleet.hosts(path) if kind == "host" else self._fleet.sites(path)
        lines = [_verdict(place) for place in places if place.verdict or place.ban][:MOST_VERDICTS]
        seen = _paragraphs([places_table.about_sample(place.sample) for place in places[:1]])
        return table(
            [*chain(*(lines or [_paragraphs([f"No {kind} stands out."])])), *seen],
            places_table.columns(kind),
            places,
            lambda place: place.name,
            (lambda place: self.host(path, place.name)) if kind == "host" else None,
        )

    def _host(self, path: str, name: str) -> Panel:
        places = [host for host in self._fleet.hosts(path) if host.name == name]
        facts = [
            f"{column.title:<9}  {text}"
            for place in places
            for column in places_table.columns("host")
            if (text := column.full_text(place))
        ]
        lines = [_verdict(place) for place in places]
        pictures = [*chain(*lines), *_paragraphs(facts)]
        agents = self._client.agents(path, limit=MOST_AGENTS)
        here = [agent for agent in agents if agent.host == name]
        return self._agents_at_work(pictures, path, without(AGENTS, "host"), here)

    def _agents(self, path: str) -> Panel:
        agents = self._client.agents(path, limit=MOST_ROWS)
        left = self._client.left_agents(path, limit=MOST_ROWS)
        there = self._client.agent_counts(path)
        lines = [f"{counted(there.agents, 'agent')} at work, {len(left):,} left within the hour."]
        lines += [f"{agent.agent} on {agent.host} left: {why_left(agent)}." for agent in left[:3]]
        return self._agents_at_work(_paragraphs(lines), path, AGENTS, agents)

    def _agents_at_work(
        self,
        pictures: Sequence[render.Picture],
        path: str,
        columns: Sequence[Column[AgentView]],
        agents: Sequence[AgentView],
    ) -> Panel:
        """Return agents as a table, below it why they are not at full work."""
        reasons = {str(mark): None for agent in agents for mark in marks(agent) if mark.why}
        return table(
            [*pictures, *_paragraphs(f"{why}." for why in islice(reasons, MOST_VERDICTS))],
            columns,
            agents,
            lambda agent: f"{agent.session_id}",
            lambda agent: self.host(path, agent.host),
        )


def _reasons(explanation: Explanation) -> list[render.Picture]:
    """Return an explanation. Commands stay whole, so that people can paste them."""
    found = _paragraphs([explanation.headline])
    for number, reason in enumerate(explanation.reasons, 1):
        found.append(render.Paragraph(f"{number}. ", one_line(reason.full_text)))
        found += _commands(reason.commands)
    return found


def _verdict(place: Place) -> list[render.Picture]:
    """Return what is wrong with a host or site, and what to do."""
    lines, commands = [], [place.proposal]
    if (ban := place.ban) is not None:
        lines.append(f"{ban.name} is {ban.about}.")
        commands = [command(place.kind, "unban", *for_campaign(ban.path), names=[place.name])]
    if place.verdict:
        lines.append(f"{place.name}: {place.verdict}.")
    if place.kind == "site" and place.choice:  # slow hosts are more often their site's
        why = "; ".join(filter(None, (place.verdict, place.loss)))
        lines[-1:] = [f"{place.name}: {why}. Ban it only if you can do without it."]
        commands.append(place.choice)
    return [*_paragraphs(lines), *_commands(filter(None, commands))]


def _of_attempt(attempt: Attempt) -> list[str]:
    """Return how an attempt ended, with the end of its output."""
    why = ": ".join(filter(None, (attempt.error_class, attempt.error)))
    ended = f"last     attempt {attempt.attempt} {attempt.outcome} on {attempt.host}; {why}"
    facts = [ended[:MOST_CHARS]]
    if attempt.result is not None:
        facts.append(f"result   {as_json(attempt.result)[:MOST_CHARS]}")
    if attempt.tail:
        facts += ["output   its end:", *attempt.tail[-MOST_CHARS:].splitlines()]
    return facts


def _paragraphs(texts: Iterable[str]) -> list[render.Picture]:
    return [render.Paragraph("", one_line(text)) for text in texts]


def _commands(commands: Iterable[str]) -> list[render.Picture]:
    return [render.Paragraph("   $ ", one_line(proposal)) for proposal in commands]
