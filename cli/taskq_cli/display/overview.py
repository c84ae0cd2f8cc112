"""State of a campaign for `taskq status` and `taskq watch`, read without reading its tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from taskq import Campaign, Client
from taskq.diagnosis.campaign_tree import CampaignNode
from taskq.diagnosis.forecast import Forecast
from taskq.model.seed import STATUSES
from taskq.model.views import AgentView, Hedges, LeftAgent, LeftOver, Refusals, Status
from taskq.model.words import beginning, command, counted, duration, rate
from taskq_cli.display.fleet import MAX_LEFT_AGENTS, is_late, summarize_left_agents
from taskq_cli.display.output import as_record
from taskq_cli.display.text import one_line


def counts(status: Status) -> dict[str, int]:
    """Return the number of tasks by status."""
    return {name: getattr(status, name) for name in STATUSES}


def shown_state(status: Status) -> str:
    """Return the state for people: `finished` if a campaign is open and all its tasks ended."""
    return "finished" if status.state == "open" and status.finished else status.state


def status_record(status: Status) -> dict[str, Any]:
    """Return a status as a record for JSON, with whether all tasks have ended."""
    return as_record(status) | {"finished": status.finished}


CLASSES: Final = 3
PAUSED: Final = 3
REFUSED: Final = 3
HEDGED: Final = 3
SHOWN_CHARS: Final = 200
MAX_GROUPED: Final = 10_000
"""Most failed and lost attempts that are grouped: grouping reads them all, which takes time."""
MAX_AGENTS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Overview:
    """State of a campaign, with or without the campaigns below it.

    agents: `MAX_AGENTS` at most. classes: the most frequent error classes with their attempts;
    None if there are more than `MAX_GROUPED` attempts. paused_below: the campaigns below it that
    paused themselves. closed_by: the campaign and those above it, if they are not open.
    left_agents: agents that left within the last hour. refusals: campaigns that agents cannot run.
    left_over: unfinished tasks, and those that no agent can claim; None if unknown, without those
    below.
    """

    status: Status
    agents: list[AgentView]
    classes: list[tuple[str, int]] | None
    paused_below: list[Status]
    closed_by: list[str]
    left_agents: list[LeftAgent]
    refusals: list[Refusals]
    left_over: LeftOver | None
    hedges: Hedges

    def record(self) -> dict[str, Any]:
        """Return the overview as a record for JSON."""
        classes = None
        if self.classes is not None:
            classes = [{"error_class": name, "attempts": n} for name, n in self.classes]
        return status_record(self.status) | {
            "agents": len(self.agents),
            "agents_left": len(self.left_agents),
            "unservable": self.left_over and self.left_over.unservable,
            "unservable_why": self.left_over and self.left_over.reasons,
            "refusals": self.refusals,
            "failure_classes": classes,
            "paused_below": [one.path for one in self.paused_below],
            "closed_by": self.closed_by,
            "hedges": self.hedges,
        }

    def title(self) -> str:
        """Return the campaign's path, state and share of final tasks."""
        status = self.status
        tasks = counted(status.total, "task")
        far = f"{status.final_share} of {tasks}" if status.total else "no tasks yet"
        return f"{status.path}  {shown_state(status)}  {far}"

    def lines(self) -> list[str]:
        """Return the lines below the title: agents, failures, refusals, pauses."""
        lines = [self._about_agents()]
        if self.status.failures or self.status.losses:
            lines.append(self._about_failures())
        if self.hedges.hedged:
            lines.append(self._about_hedges(self.hedges))
        lines += [
            f"refused    {one.path} on {counted(one.hosts, 'host')} "
            f"({one_line(', '.join(one.some_hosts or ()))}), last as "
            f"{one_line(one.error_class or 'nothing')}: "
            f"{beginning(one_line(one.error or ''), SHOWN_CHARS)}"
            for one in self.refusals[:REFUSED]
        ]
        lines += [f"in vain    {one_line(reason)}" for reason in self._unclaimable_reasons()]
        if self.status.paused_why:
            lines.append(f"paused     itself: {one_line(self.status.paused_why)}")
        if self.closed_by:
            until = resume_commands(self.closed_by)
            lines.append(f"{self.status.state:<9}  no tasks are handed out until {until}")
        lines += [
            f"paused     {one.path} itself: {one_line(one.paused_why or '')}; "
            f"{resume_commands([one.path])} when that is repaired"
            for one in self.paused_below[:PAUSED]
        ]
        if self.status.waiting and not self.status.working:
            lines.append(f"why        `taskq explain {self.status.path}` says why they wait")
        if (more := len(self.paused_below) - PAUSED) > 0:
            lines.append(f"paused     {more:,} more below; see `taskq tree {self.status.path}`")
        return lines

    def _unclaimable_reasons(self) -> list[str]:
        """Return why no agent can claim waiting tasks, except pauses, which have own lines."""
        paused = tuple(f"{one.path} has paused" for one in [self.status, *self.paused_below])
        reasons = self.left_over.reasons if self.left_over is not None else ()
        return [reason for reason in reasons if not reason.startswith(paused)]

    def _about_agents(self) -> str:
        if not self.agents:
            hint = f"; {summarize_left_agents(self.left_agents)}" if self.left_agents else ""
            unservable = self.left_over.unservable if self.left_over is not None else 0
            if self.status.unfinished > unservable:
                hint += f"; `taskq agent run --campaign {self.status.path}` starts one"
            return f"agents     none{hint}"
        more = "over " if len(self.agents) == MAX_AGENTS else ""
        hosts = counted(len({agent.host for agent in self.agents}), "host")
        slots = counted(sum(agent.slots for agent in self.agents), "slot")
        silent = f"silent {duration(max(agent.silent_s for agent in self.agents))} at most"
        if late := [agent for agent in self.agents if is_late(agent.silent_s, agent.lease_s)]:
            lost = duration(min(agent.lease_s for agent in late))
            silent += f", {len(late):,} too long: they count as lost after {lost}"
        else:
            silent += ", as usual"
        return f"agents     {more}{len(self.agents):,} on {hosts}, {slots}; {silent}"

    def _about_failures(self) -> str:
        failures, losses = self.status.failures, self.status.losses
        text = f"attempts   {failures:,} failed, {losses:,} lost; "
        text += f"`{command('failures', names=[self.status.path])}` says why, and whose fault"
        return text + "".join(
            f"\n           {n:,} {one_line(name) or '(no class)'}" for name, n in self.classes or ()
        )

    def _about_hedges(self, hedges: Hedges) -> str:
        tasks = counted(hedges.hedged, "task")
        text = f"hedged     {tasks} had a second attempt; {hedges.running:,} at work again"
        for one in hedges.longest[:HEDGED]:
            where = "" if one.campaign == self.status.path else f"{one.campaign} "
            text += (
                f"\n           {where}{one_line(one.key)[:SHOWN_CHARS]} on {one_line(one.host)} "
                f"for {duration(one.run_s)}, first on {one_line(one.first_host)} "
                f"{duration(one.first_run_s)} ago"
            )
        return text


def pace_lines(forecast: Forecast) -> list[str]:
    """Return the lines about the rate and the end of a campaign; none if nothing is known."""
    pace, ends = forecast.pace, forecast.text()
    lines = [] if pace is None else [f"pace       {rate(pace.per_s)} {pace.over}"]
    return [*lines, f"ETA        {ends}"] if ends else lines


def resume_commands(paths: list[str]) -> str:
    """Return the commands that resume these campaigns, as part of a sentence."""
    return " and ".join(f"`taskq campaign resume {path}`" for path in paths)


def read_overview(
    client: Client, path: str, nodes: Mapping[str, CampaignNode] | None = None
) -> Overview:
    """Read the overview of a campaign; raise `NotFound`.

    nodes: of the tree; None: without the campaigns below.
    """
    campaign, below = client.campaign(path), nodes is not None
    status = campaign.status(below=False) if nodes is None else nodes[path].status
    own = [status] if nodes is None else [one.own for one in nodes.values()]
    refusals = [one for one in client.refusals(path) if below or one.path == path]
    left_over = client.left_over(path) if below or not status.children else None
    troubled = (
        status.failures
        or status.losses
        or refusals
        or (left_over is not None and left_over.unservable)
    )
    # Without failures, refusals and leftovers no campaign has paused itself.
    own = own if troubled else []
    classes: Counter[str] = Counter()
    groupable = status.failures + status.losses <= MAX_GROUPED
    for node in own if groupable else ():
        if node.failures or node.losses:
            one = Campaign(client.queries, node.campaign_id, node.path)
            classes.update(one.failure_classes(below=False))
    return Overview(
        status=status,
        agents=client.agents(path, limit=MAX_AGENTS),
        classes=classes.most_common(CLASSES) if groupable else None,
        closed_by=[] if status.state == "open" else campaign.closed_by(),
        paused_below=[one for one in own if one.paused_why and one.path != status.path],
        left_agents=client.left_agents(path, limit=MAX_LEFT_AGENTS),
        refusals=refusals,
        left_over=left_over,
        hedges=campaign.hedges(below=below),
    )
