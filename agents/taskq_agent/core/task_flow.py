"""What an agent does with its tasks: takes them in, begins, stops, reports and hands them back."""

from __future__ import annotations

import logging

from taskq_agent.core import events as ev
from taskq_agent.core.claiming import Claiming
from taskq_agent.core.events import Outbox
from taskq_agent.core.held_tasks import HeldTasks, Queued, Running
from taskq_agent.core.progress_log import ProgressLog
from taskq_agent.core.reports import ended_report, fence, line, unstarted_report
from taskq_agent.protocol import DONE, RELEASED, Answer, CampaignTerms, Held, Report, Task

_SHOWN_ERROR_CHARS = 300


class TaskFlow:
    """The tasks in hand, and what happens to them."""

    def __init__(
        self, hand: HeldTasks, claiming: Claiming, journal: ProgressLog, out: Outbox
    ) -> None:
        self._hand = hand
        self._claiming = claiming
        self._journal = journal
        self._out = out

    def take_in(self, answer: Answer, now: float, *, leaving: bool) -> int:
        """Take in what a claim has got; return how many tasks were kept.

        What cannot end in time goes back at once, as all does when the agent is leaving, what was
        claimed before it was slowed down, and what it cannot run.
        """
        campaigns = {campaign.campaign: campaign for campaign in answer.campaigns}
        kept = 0
        for task in answer.tasks:
            campaign, held = campaigns.get(task.campaign), fence(task)
            if campaign is None or self._hand.has(held):
                text = "task %s is not what was asked for: left"
                self._out.say(logging.WARNING, text, task.key)
            elif (
                leaving
                or not self._claiming.fits(campaign, now)
                or self._is_too_much(now)
                or self._is_left_out(campaign, now)
            ):
                self._hand_back(task)
            else:
                self._hand.queue[held] = Queued(task, campaign, now)
                kept += 1
        if kept:
            self._out.say(logging.DEBUG, "claimed %d tasks", kept)
        return kept

    def begin(self, now: float) -> None:
        """Begin as many tasks as there are idle slots."""
        hand = self._hand
        while hand.idle and hand.queue:
            held = next(iter(hand.queue))
            queued = hand.queue.pop(held)
            if not self._claiming.fits(queued.campaign, now):
                self._hand_back(queued.task)
                continue
            slot, wait_s = hand.idle.pop(), now - queued.since
            task, campaign = queued.task, queued.campaign
            hand.running[slot] = Running(
                held=held,
                key=task.key,
                attempt=task.attempt,
                revision=campaign.revision,
                path=campaign.path,
                since=now,
                wait_s=wait_s,
                stops_unheard=queued.stops_unheard,
            )
            self._out.add(ev.StartTask(slot, task, campaign))

    def ended(self, event: ev.TaskEnded, now: float) -> None:
        """Report the end of an attempt, unless nobody wants to hear of it."""
        running, ended = self._hand.running.pop(event.slot), event.ended
        self._hand.idle.append(event.slot)
        if ended.started and not (ended.node_broken or ended.refused):
            self._claiming.attempted(now - running.since, done=ended.outcome == DONE)
        stopped = running.told_at is not None
        report = ended_report(running.held, ended, wait_s=running.wait_s, stopped=stopped)
        self._abstain(report, running, now)
        if not running.void:
            self._report(report)
            self._out.add(self._journal.ended(running, report, now))
            self._learn(report, running, now)

    def take_back(self, held: Held) -> None:
        """Let go of an attempt whose lease is void."""
        if self._hand.queue.pop(held, None) is not None:
            self._out.say(logging.DEBUG, "task %d was taken back", held.task)
        for running in self._hand.running.values():
            if running.held == held and not running.void:
                running.void = True
                text = "task %s was taken back: stopping it"
                self._out.say(logging.INFO, text, running.key)

    def tell_to_stop(self, now: float, *, all_stop: bool) -> None:
        """Tell the slots to stop whose tasks are to, or all of them."""
        for slot in self._hand.to_be_stopped(now, all_stop=all_stop):
            self._out.add(ev.StopTask(slot))

    def stop_unheard(self) -> None:
        """Hand back what is not to run while the queue may have given it to somebody else."""
        unbegun, begun = self._hand.unheard()
        for task in unbegun:
            self._hand_back(task)
        for running in begun:
            text = "nothing is heard: stopping task %s"
            self._out.say(logging.WARNING, text, running.key)

    def hand_back_queue(self) -> None:
        """Hand back all that has not begun."""
        for queued in self._hand.queue.values():
            self._hand_back(queued.task)
        self._hand.queue.clear()

    def suspected(self, why: str) -> None:
        """Hear whether this host is taken for a bad one, and why; if so, keep what runs only."""
        was, slowing = self._claiming.slowing.suspect, self._claiming.slowing
        slowing.suspected(why)
        if why and not was:
            self.hand_back_queue()
            self._out.say(
                logging.WARNING, "more fails on this host than on others: %s: slowing down", why
            )
        elif was and not why:
            self._out.say(logging.WARNING, "this host is like others again: claiming as usual")

    def _learn(self, report: Report, running: Running, now: float) -> None:
        """See whether everything fails on this node; then nothing is kept that has not begun."""
        slowing = self._claiming.slowing
        was_slowed = slowing.slowed
        begins = slowing.ended(report, running.attempt, running.since, now)
        trouble = slowing.trouble(now)
        if begins and trouble is not None:
            self.hand_back_queue()
            text = "%d attempts in a row have failed within seconds, the last as %s: slowing down"
            self._out.say(logging.WARNING, text, trouble.failures, trouble.error_class or "nothing")
        elif was_slowed and trouble is None:
            self._out.say(logging.WARNING, "not everything fails any more: claiming as usual")

    def _abstain(self, report: Report, running: Running, now: float) -> None:
        """See whether the campaign can be run here; if not, keep none of it that is not begun."""
        campaign, abstaining = running.held.campaign, self._claiming.abstaining
        if not report.refused:
            if report.outcome != RELEASED:
                abstaining.ran(campaign)
            return
        pause_s = abstaining.refused(campaign, running.revision, running.since, now)
        if pause_s is None:
            return
        for held in [one for one in self._hand.queue if one.campaign == campaign]:
            self._hand_back(self._hand.queue.pop(held).task)
        error = " ".join((report.error or "").split())[:_SHOWN_ERROR_CHARS]
        text = "%s cannot be run here, trying again in %.0f s: %s: %s"
        self._out.say(logging.WARNING, text, running.path, pause_s, report.error_class, error)

    def _is_left_out(self, campaign: CampaignTerms, now: float) -> bool:
        abstaining = self._claiming.abstaining
        return bool(abstaining) and abstaining.leaves_out(
            campaign.campaign, campaign.revision, self._hand.campaigns(), now
        )

    def _is_too_much(self, now: float) -> bool:
        slowing = self._claiming.slowing
        return slowing.slowed and (self._hand.tasks() > 0 or now < slowing.try_at)

    def _hand_back(self, task: Task) -> None:
        self._journal.handed_back()
        self._report(unstarted_report(fence(task)))

    def _report(self, report: Report) -> None:
        held, text = fence(report), line(report)
        self._hand.reports[held] = (report, len(text))
        self._out.add(ev.SpoolReport(held, text))
