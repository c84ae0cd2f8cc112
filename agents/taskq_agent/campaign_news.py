"""What heartbeats and their answers say of campaigns on one node."""

from __future__ import annotations

from dataclasses import dataclass

from taskq_agent.ids import Count, Id


@dataclass(frozen=True)
class CampaignOutcomes:
    """How the last first attempts of a session ended in one campaign: done, or failed.

    Only transient failures count: a task that the handler found bad says nothing about the host.
    """

    campaign: Id
    done: Count
    failed: Count


@dataclass(frozen=True)
class CampaignBan:
    """A campaign, with all below it, that the agent leaves out: its host or site is banned for it.

    why: the reason, for people.
    """

    path: str
    why: str = ""
