"""State of a campaign for `taskq status` and `taskq watch`, read without reading its tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from taskq import Campaign, Client
from taskq.diagnosis.campaign_tree import CampaignNode
from taskq.diagnosis.events import event_of
from taskq.diagnosis.forecast import Forecast
from taskq.diagnosis.reasons import Explanation, Reason
from taskq.diagnosis.tables.campaigns import state
from taskq.model.seed import STATUSES
from taskq.model.views import AgentCounts, Hedges, LeftAgent, Refusals, Status
from taskq.model.words import beginning, command, counted, duration, rate
from taskq_cli.display.fleet import MAX_LEFT_AGENTS, summarize_left_agents
from taskq_cli.display.output import as_record
from taskq_cli.display.text import one_line

CLASSES: Final = 3
REASONS: Final = 3
REFUSED: Final = 3
HEDGED: Final = 3
SHOWN_CHARS: Final = 200
MAX_GROUPED: Final = 10_000


def counts(status: Status) -> dict[str, int]:
    """Return the number of tasks by status."""
    return {name: getattr(status, name) for name in STATUSES}


def status_record(status: Status) -> dict[str, Any]:
    """Return a status as a record for JSON, with whether all tasks have ended."""
    return as_record(status) | {"finished": status.finished}


"""Most failed and lost attempts that are grouped: grouping reads them all, which takes time."""


@dataclass(frozen=True, slots=True)
class Overview:
    """State of a campaign, with or without the campaigns below it.

    classes: the most frequent error classes with their attempts;
    None if there are more than `MAX_GROUPED` attempts. closed_by: the campaign and those above it,
    if they are not open. left_agents: agents that left within the last hour. refusals: campaigns
    that agents cannot run. explanation: of the campaign and all below it; None without those below.
    """

    status: Status
    agents: AgentCounts
    classes: list[tuple[str, int]] | None
    closed_by: list[str]
    left_agents: list[LeftAgent]
    refusals: list[Refusals]
    hedges: Hedges
    explanation: Explanation | None

    @property
    def reasons(self) -> list[Reason]:
        """The reasons that notifications report: what is in the way or broken, and the end."""
        found = () if self.explanation is None else self.explanation.reasons
        return [reason for reason in found if event_of(reason) is not None]

    def record(self) -> dict[str, Any]:
        """Return the overview as a record for JSON."""
        classes = None
        if self.classes is not None:
            classes = [{"error_class": name, "attempts": n} for name, n in self.classes]
        return status_record(self.status) | {
            "agents": self.agents.agents,
            "agents_left": len(self.left_agents),
            "reasons": None if self.explanation is None else self.reasons,
            "refusals": self.refusals,
            "failure_classes": classes,
            "closed_by": self.closed_by,
            "hedges": self.hedges,
        }

    def title(self) -> str:
        """Return the campaign's path, state and share of final tasks."""
        status = self.status
        tasks = counted(status.total, "task")
        far = f"{status.final_share} of {tasks}" if status.total else "no tasks yet"
        return f"{status.path}  {state(status)}  {far}"

    def lines(self) -> list[str]:
        """Return the lines below the title: agents, failures, refusals, what is in the way."""
        lines = [self._about_agents()]
        if self.status.failures or self.status.losses:
            lines.append(self._about_failures())
        if self.hedges.hedged:
            lines.append(self._about_hedges(self.hedges))
        lines += [
            f"refused    {refusal.path} on {counted(refusal.hosts, 'host')} "
            f"({one_line(', '.join(refusal.some_hosts or ()))}), last as "
            f"{one_line(refusal.error_class or 'nothing')}: "
            f"{beginning(one_line(refusal.error or ''), SHOWN_CHARS)}"
            for refusal in self.refusals[:REFUSED]
        ]
        for reason in self.reasons[:REASONS]:
            lines.append(
                f"{'end' if reason.code == 'finished' else 'why':<9}  {one_line(reason.text)}"
            )
            lines += [f"{'':<9}  $ {one_line(it)}" for it in reason.commands]
        if (more := len(self.reasons) - REASONS) > 0:
            explain = command("explain", names=[self.status.path])
            lines.append(f"why        {counted(more, 'more reason')}: `{explain}`")
        elif self.explanation is None and self.status.waiting and not self.status.working:
            lines.append(f"why        `taskq explain {self.status.path}` says why they wait")
        return lines

    def _about_agents(self) -> str:
        found = self.agents
        if not found.agents:
            hint = f"; {summarize_left_agents(self.left_agents)}" if self.left_agents else ""
            return f"agents     none{hint}"
        silent = f"silent {duration(found.silent_s or 0)} at most"
        if found.late:
            lost = duration(found.lost_after_s or 0)
            silent += f", {found.late:,} too long: they count as lost after {lost}"
        else:
            silent += ", as usual"
        hosts, slots = counted(found.hosts, "host"), counted(found.slots, "slot")
        return f"agents     {found.agents:,} on {hosts}, {slots}; {silent}"

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
        for hedge in hedges.longest[:HEDGED]:
            where = "" if hedge.campaign == self.status.path else f"{hedge.campaign} "
            text += (
                f"\n           {where}{one_line(hedge.key)[:SHOWN_CHARS]} on "
                f"{one_line(hedge.host)} for {duration(hedge.run_s)}, "
                f"first on {one_line(hedge.first_host)} {duration(hedge.first_run_s)} ago"
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
    client: Client,
    path: str,
    nodes: Mapping[str, CampaignNode] | None = None,
    explanation: Explanation | None = None,
) -> Overview:
    """Read the overview of a campaign; raise `NotFound`.

    nodes: of the tree; None: without the campaigns below.
    """
    campaign, below = client.campaign(path), nodes is not None
    status = campaign.status(below=False) if nodes is None else nodes[path].status
    own = [status] if nodes is None else [node.own for node in nodes.values()]
    classes: Counter[str] = Counter()
    groupable = status.failures + status.losses <= MAX_GROUPED
    for node in own if groupable else ():
        if node.failures or node.losses:
            campaign = Campaign(client.queries, node.campaign_id, node.path)
            classes.update(campaign.failure_classes(below=False))
    return Overview(
        status=status,
        agents=client.agent_counts(path),
        classes=classes.most_common(CLASSES) if groupable else None,
        closed_by=[] if status.state == "open" else campaign.closed_by(),
        left_agents=client.left_agents(path, limit=MAX_LEFT_AGENTS),
        refusals=[refusal for refusal in client.refusals(path) if below or refusal.path == path],
        hedges=campaign.hedges(below=below),
        explanation=explanation,
    )
