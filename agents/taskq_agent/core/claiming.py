"""Number and time of the claims of an agent, and the reasons to claim no more."""

from __future__ import annotations

import math
from itertools import chain
from typing import Callable, Iterable, Optional, Set, Tuple

from taskq_agent import exit_codes
from taskq_agent.backoff import Backoff, CampaignBackoff
from taskq_agent.core.call_state import CallState
from taskq_agent.core.campaign_bans import CampaignBans
from taskq_agent.core.gathering import Gathering
from taskq_agent.core.held_tasks import HeldTasks
from taskq_agent.core.rationing import Rationing
from taskq_agent.core.run_times import AT_ONCE_S, QUICK_S, CampaignRuns, RunTimes
from taskq_agent.handlers.definition import FUNCTION
from taskq_agent.protocol import (
    MAX_CLAIM,
    MAX_WITHOUT,
    STOP,
    Answer,
    CampaignTerms,
    Request,
    Unservable,
)
from taskq_agent.room import Room
from taskq_agent.settings import AgentSettings
from taskq_agent.throttle import Throttle

_LONGEST_HOLD_S = 3_600.0
_KEPT_CAMPAIGNS = 1_000
_FIRST_POLL_S = 0.1
# The least time for an attempt that goes on from a checkpoint and leaves another.
_WORTH_BEGINNING_S = 60.0
_STALE_AHEAD = 10.0  # times ahead_s
_MOST_REASONS_LOGGED = 100


class Claiming:
    """Decides how many tasks to claim, within the limits of the settings.

    stop_at: when the last running tasks must be stopped, so that all is handed back in time.
    claim_at: no claim is made before; the last one found nothing, or the queue ordered a pause.
    throttle: limits claims while everything fails. campaign_backoff: campaigns to leave out, since
    they cannot run here; campaign_bans: those for which this node is banned. campaign_runs: how
    long tasks without a time limit last. busy_at: when the agent last held anything. gathering:
    sizes of batches. rationing: the room of the node.
    """

    def __init__(
        self,
        settings: AgentSettings,
        now: float,
        uniform: Callable[[], float],
        room: Optional[Room] = None,
    ) -> None:
        self.stop_at = math.inf
        if settings.max_seconds is not None:
            reserve_s = min(settings.stop_s + settings.farewell_s, settings.max_seconds / 2)
            self.stop_at = now + settings.max_seconds - reserve_s
        self.claim_at = self._held_off_until = now
        self._woken = False
        self._pauses_idle = True
        self._was_busy = False
        self.throttle = Throttle(uniform)
        self.campaign_backoff = CampaignBackoff(settings.campaign_backoff_s, uniform)
        self.campaign_bans = CampaignBans()
        self.campaign_runs = CampaignRuns()
        self.busy_at = now
        self._settings = settings
        self._run_times = RunTimes(settings.ahead_s)
        self._polls = Backoff(min(_FIRST_POLL_S, settings.poll_s), settings.poll_s, uniform)
        self._apart: Set[Tuple[int, int]] = set()
        self.gathering = Gathering()
        self.rationing = Rationing(room, self.gathering.size)
        self.attempts = 0
        self._left: Optional[int] = None
        self._found_nothing = False
        self._alone = False
        self._unservable: Optional[Unservable] = None
        self._reported: Set[str] = set()
        self._shortest_limit_s = math.inf
        self._uniform = uniform

    def lifetime_s(self, now: float) -> Optional[float]:
        """Return for how many seconds a task may still run; None means no limit."""
        return None if self.stop_at == math.inf else self.stop_at - now

    def fits(self, campaign: CampaignTerms, now: float) -> bool:
        """Return whether a task of this campaign can end before `stop_at`."""
        longest_s = campaign.time_limit_s
        if longest_s is None:
            longest_s = self.campaign_runs.longest_s(campaign.campaign, campaign.revision)
        return longest_s <= self.stop_at - now

    def note_terms(self, campaigns: Iterable[CampaignTerms]) -> None:
        """Note the campaigns whose tasks need not end in time, since they leave a checkpoint."""
        for campaign in campaigns:
            if campaign.checkpoint_bytes is not None and campaign.time_limit_s is None:
                least_s = min(campaign.checkpoint_every_s, _WORTH_BEGINNING_S)
                self.campaign_runs.suppose(campaign.campaign, campaign.revision, least_s)

    def learn_run(self, campaign: CampaignTerms, run_s: float) -> None:
        """Learn how long tasks last that have neither a time limit nor a checkpoint."""
        if campaign.time_limit_s is None and campaign.checkpoint_bytes is None:
            self.campaign_runs.learn(campaign.campaign, campaign.revision, run_s)

    def idle_at(self) -> float:
        """Return when the agent has been without a task for too long, if it gets none."""
        timeout_s = self._settings.idle_timeout_s
        return math.inf if timeout_s is None else self.busy_at + timeout_s

    def want(self, held_tasks: HeldTasks, now: float) -> int:
        """Return how many tasks to claim now."""
        if self.rationing.has_freed():
            self._polls.reset()
            self.claim_at = max(now, self._held_off_until)
        self._was_busy = not held_tasks.is_empty()
        pauses = self._pauses_idle or self._was_busy
        claim_at = self.claim_at if pauses else self._held_off_until
        if now < max(claim_at, self.throttle.try_at) or (
            self.throttle.active and held_tasks.tasks()
        ):
            return 0
        ahead_s = self._settings.ahead_s
        quick_slots = self._settings.slots
        quick_slots -= sum(now - running.since > ahead_s for running in held_tasks.running.values())
        room = self.gathering.room(held_tasks)
        if room is None:
            room = held_tasks.free() + self._run_times.ahead(quick_slots)
        want = min(MAX_CLAIM, room)
        if self.throttle.active or self._alone:
            want = min(want, 1)
        if self._settings.max_tasks is not None:
            want = min(want, self._settings.max_tasks - self.attempts - held_tasks.tasks())
        return max(0, self.rationing.most(held_tasks.queue.values(), want, now))

    def has_room(self, held_tasks: HeldTasks) -> bool:
        """Return whether a slot has nothing to do: only then a claim is worth a call of its own."""
        room = self.gathering.room(held_tasks)
        return (held_tasks.free() if room is None else room) > 0

    def wait_s(self, held_tasks: HeldTasks, now: float) -> float:
        """Return for how many seconds the queue may keep a claim made now waiting.

        0 while anything is held: one call at a time is in flight, and reports must not wait for it.
        Random, so that agents that asked together do not return together.
        """
        longest_s = self._settings.longest_wait_s
        if not held_tasks.is_empty():
            return 0.0
        left_s = self.stop_at - now
        if self._shortest_limit_s < math.inf:
            left_s -= self._shortest_limit_s
        tries_at = min(self.campaign_backoff.next_at(now), self.throttle.next_at(now))
        left_s = min(left_s, tries_at - now, self.idle_at() - now)
        return max(0.0, min(longest_s * (0.5 + 0.5 * self._uniform()), left_s))

    def behind(self, campaign: CampaignTerms, held_tasks: HeldTasks, now: float) -> int:
        """Return how many tasks of a campaign a slot may get behind the one that begins now.

        Only short calls of functions go together, in equal shares for all slots, and only if they
        surely end in time, and only their results are kept, as they are.
        """
        if (
            campaign.handler.get("kind") != FUNCTION
            or campaign.on_disconnect == STOP
            or campaign.checkpoint_bytes is not None
            or campaign.output_bytes is not None
            or campaign.require
            or campaign.memory
            or self.throttle.slows(campaign.campaign)
            or (campaign.campaign, campaign.revision) in self._apart
            or not self.fits(campaign, now + AT_ONCE_S)
        ):
            return 0
        share = -(-(len(held_tasks.queue) + 1) // self._settings.slots)
        return min(share, self._run_times.at_once()) - 1

    def together(
        self, campaign: CampaignTerms, count: int, held_tasks: HeldTasks, now: float
    ) -> int:
        """Return how many of so many tasks of a campaign begin together in one slot."""
        if self.throttle.slows(campaign.campaign):
            return 1
        others = self.rationing.starts(campaign, len(held_tasks.idle))
        size = self.gathering.share(campaign, count, others)
        each_s = self.campaign_runs.longest_s(campaign.campaign, campaign.revision)
        if each_s > 0 and self.stop_at < math.inf:
            size = min(size, int((self.stop_at - now) / each_s))
        return max(1, size)

    def keep_apart(self, campaign: int, revision: int) -> None:
        """Start the tasks of this campaign one by one from now on."""
        if len(self._apart) >= _KEPT_CAMPAIGNS:
            self._apart.clear()
        self._apart.add((campaign, revision))

    def hold_off(self, now: float, wait_s: float) -> None:
        """Make no claim for so long, an hour at most, since the queue says so."""
        until = now + min(max(wait_s, 0.0), _LONGEST_HOLD_S)
        self._held_off_until = max(self._held_off_until, until)
        self.claim_at = max(self.claim_at, until)

    def woken(self, now: float, under_way: bool) -> None:
        """End the pause after a claim that found nothing; a pause that the queue ordered goes on.

        under_way: a claim waits for its answer. It may have missed the new tasks; if it finds
        nothing, the next one follows at once.
        """
        self._woken = under_way
        self._polls.reset()
        self.claim_at = max(now, self._held_off_until)

    def claimed(
        self, answer: Answer, claim: Request, kept: int, now: float, *, long_polled: bool = False
    ) -> None:
        """Learn from the answer to a claim; kept: how many of its tasks the agent accepted.

        long_polled: the queue kept the claim waiting for most of its time, so the next claim
        follows soon.
        """
        self._alone = False
        self.gathering.claimed(answer, claim)
        self.rationing.claimed(answer, claim)
        for campaign in answer.campaigns:
            limit_s = campaign.time_limit_s or 0.0
            self._shortest_limit_s = min(self._shortest_limit_s, limit_s)
        self._found_nothing = not answer.tasks
        self._left = None if answer.tasks else answer.left
        self._unservable = answer.unservable
        if kept or long_polled:
            self._polls.reset()
        if not self._woken:
            is_all = kept < claim.want and kept <= self._settings.slots
            if not kept:
                self.claim_at = now + self._polls.draw()
                # Once the agent holds nothing, the next one is a long poll, which needs no pause.
                self._pauses_idle = not (self._was_busy and self._settings.longest_wait_s)
            elif is_all and self._run_times.are_quick():
                self.claim_at = max(self.claim_at, now + QUICK_S)
        self._woken = False

    def unread(self, now: float) -> None:
        """Claim one task after a pause, since one of the last tasks made the answer unreadable."""
        self._alone = self._pauses_idle = True
        self.claim_at = now + self._polls.draw()

    def attempted(self, run_s: float, *, done: bool) -> None:
        """Count an attempt that ran, and learn its run time if it succeeded."""
        self.attempts += 1
        self._left = None  # it may have been the last
        if done:
            self._run_times.learn(run_s)

    def is_stale(self, held_tasks: HeldTasks, now: float) -> bool:
        """Return whether tasks claimed ahead are stuck behind long ones, or wait for room."""
        oldest = next(iter(held_tasks.queue.values()), None)
        patience_s = _STALE_AHEAD * self._settings.ahead_s
        if oldest is None or now - oldest.since <= patience_s:
            return False
        return not held_tasks.idle or not self.rationing.starts(oldest.campaign, 1)

    def without(self, held_tasks: HeldTasks, now: float) -> Tuple[Tuple[int, int], ...]:
        """Return the (campaign, revision) pairs that a claim must leave out, bans first."""
        held = held_tasks.campaigns() if self.campaign_backoff or self.throttle.only else ()
        too_long = self.campaign_runs.above(self.stop_at - now) if self.stop_at < math.inf else ()
        parts = (
            self.campaign_bans.without(),
            self.throttle.without(held, now),
            self.campaign_backoff.without(held, now),
            sorted(too_long),
            sorted(self.rationing.without(held_tasks.queue.values(), now)),
        )
        return tuple(sorted([*dict.fromkeys(chain.from_iterable(parts))][:MAX_WITHOUT]))

    def unservable_news(self, answer: Answer) -> str:
        """Return what the agent cannot get and why, once for each new reason; else nothing.

        An agent with `until_empty` names it when it shuts down.
        """
        unservable = answer.unservable
        if unservable is None or self._settings.until_empty:
            return ""
        news = [reason for reason in unservable.reasons if reason not in self._reported]
        if not news or len(self._reported) >= _MOST_REASONS_LOGGED:
            return ""
        self._reported.update(news)
        return in_words(unservable)

    def reason_to_leave(
        self, held_tasks: HeldTasks, calls: CallState, now: float
    ) -> Optional[Tuple[str, int]]:
        """Return why to leave now, and the exit code; None if there is no reason."""
        if now >= self.stop_at:
            return "its time is up", 0
        if not held_tasks.is_empty():
            return None
        over = self.reason_to_stop(now) if calls.call is None else None
        is_pointless = calls.call is None or calls.failing_since is not None
        if over is None and now >= self.idle_at() and is_pointless:
            over = f"it has had no task for {now - self.busy_at:.0f} s", 0
        return over

    def reason_to_stop(self, now: float) -> Optional[Tuple[str, int]]:
        """Return why an agent that holds nothing should not claim again, with its exit code.

        None if it should claim.
        """
        settings, left_s = self._settings, self.stop_at - now
        if settings.max_tasks is not None and self.attempts >= settings.max_tasks:
            made = settings.max_tasks
            return f"it has made {made} attempt{'' if made == 1 else 's'}", 0
        if settings.until_empty and self._left is not None and self._left <= 0:
            if self._unservable is None:
                return "nothing is left to do", 0
            return (
                f"all that is left cannot be run: {in_words(self._unservable)}",
                exit_codes.UNSERVABLE,
            )
        if left_s < self._shortest_limit_s < math.inf or (
            self._found_nothing and self.campaign_runs.above(left_s)
        ):
            return "no task can end in the time that is left", 0
        return None


def in_words(unservable: Unservable) -> str:
    """Return a text for people: how many tasks cannot be run, and why."""
    plural = "" if unservable.tasks == 1 else "s"
    return f"{unservable.tasks} task{plural}: {'; '.join(unservable.reasons)}"
