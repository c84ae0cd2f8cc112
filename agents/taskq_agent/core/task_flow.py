"""Flow of tasks through an agent: accept, begin, stop, report and hand back."""

from __future__ import annotations

import logging
from itertools import islice
from typing import Collection, List, Optional, Tuple

from taskq_agent.campaign_news import CampaignBan
from taskq_agent.core import events as ev
from taskq_agent.core.claiming import Claiming
from taskq_agent.core.events import Outbox
from taskq_agent.core.held_tasks import HeldTasks, QueuedTask, RunningTask
from taskq_agent.core.naming import Naming
from taskq_agent.core.progress_log import ProgressLog
from taskq_agent.core.reports import ended_report, fence, line, unstarted_report
from taskq_agent.core.shutdown import SlotEvent, is_by_ending_signal
from taskq_agent.handlers.base import Ended, is_batched
from taskq_agent.held_claims import LeftOfClaim
from taskq_agent.protocol import (
    DONE,
    FAILED,
    RELEASED,
    Answer,
    CampaignTerms,
    Held,
    Report,
    Request,
    Task,
)

_SHOWN_ERROR_CHARS = 300


class TaskFlow:
    """Moves the held tasks from claim to report. naming: names them for heartbeats."""

    def __init__(
        self, held_tasks: HeldTasks, claiming: Claiming, progress: ProgressLog, out: Outbox
    ) -> None:
        self._held_tasks = held_tasks
        self._claiming = claiming
        self._progress = progress
        self._out = out
        self.naming = Naming(held_tasks)

    def take_in(self, answer: Answer, claim: Request, now: float, *, shutting_down: bool) -> int:
        """Accept the tasks that a claim got; return how many were kept.

        It hands back at once tasks that cannot end in time, that were claimed before the agent was
        throttled, for which the node has no room or is banned, or that it cannot run; and all tasks
        while it shuts down.
        """
        campaigns = {campaign.campaign: campaign for campaign in answer.campaigns}
        self._claiming.note_terms(answer.campaigns)
        self.naming.claimed(answer, claim.lease)
        kept = 0
        rationing = self._claiming.rationing
        intake = rationing.intake(self._held_tasks.queue.values(), now)
        for task in answer.tasks:
            campaign, held = campaigns.get(task.campaign), fence(task)
            if campaign is None or self._held_tasks.has(held):
                text = "task %s was not asked for: ignored"
                self._out.log(logging.WARNING, text, task.key)
            elif (
                shutting_down
                or not self._claiming.fits(campaign, now)
                or self._is_throttled(now)
                or self._is_excluded(campaign, now)
                or self._claiming.campaign_bans.cover(campaign)
            ):
                self._hand_back(task)
            elif not intake.takes(campaign):
                rationing.refused(campaign, intake.lacks(campaign), now)
                self._hand_back(task)
            else:
                self._held_tasks.queue[held] = QueuedTask(task, campaign, now)
                kept += 1
        if kept:
            self._out.log(logging.DEBUG, "claimed %d tasks", kept)
        for news in rationing.news():
            self._out.log(logging.WARNING, "%s", news)
        return kept

    def begin(self, now: float) -> None:
        """Begin as many tasks as there are idle slots, if the node has room for them."""
        held_tasks, rationing = self._held_tasks, self._claiming.rationing
        rationing.settle(held_tasks.idle)
        while held_tasks.idle:
            queued = rationing.next(held_tasks.queue.values())
            if queued is None or (
                not self._claiming.throttle.slows(queued.campaign.campaign)
                and self._claiming.gathering.waits(held_tasks, queued, now)
            ):
                break
            del held_tasks.queue[fence(queued.task)]
            if not self._claiming.fits(queued.campaign, now):
                self._hand_back(queued.task)
                continue
            slot = held_tasks.idle.pop()
            grant = rationing.begin(slot, queued.campaign)
            behind = self._take_behind(queued, now)
            together = is_batched(queued.campaign)
            held_tasks.running[slot] = _running(queued, now, together=together)
            if behind:
                held_tasks.behind[slot] = {
                    fence(later.task): _running(later, now, together=together) for later in behind
                }
            tasks = tuple(later.task for later in behind)
            self._out.add(ev.StartTask(slot, queued.task, queued.campaign, tasks, grant))

    def _take_behind(self, first: QueuedTask, now: float) -> List[QueuedTask]:
        """Take the tasks of the queue that a slot gets with, or behind, one that begins now."""
        queue, campaign, taken = self._held_tasks.queue, first.campaign, []
        if is_batched(campaign):
            suitable = [held for held, task in queue.items() if task.suits(first)]
            most = self._claiming.together(campaign, len(suitable) + 1, self._held_tasks, now)
            return [queue.pop(held) for held in suitable[: most - 1]]
        most = self._claiming.behind(campaign, self._held_tasks, now) if queue else 0
        for held, task in list(islice(queue.items(), max(0, most))):
            terms = task.campaign
            if (terms.campaign, terms.revision) != (campaign.campaign, campaign.revision):
                break
            taken.append(queue.pop(held))
        return taken

    def calls_ended(self, event: ev.CallsEnded, now: float, *, shutting_down: bool) -> None:
        """Report the ends of calls that a slot got together; take back what has not begun."""
        running = self._held_tasks.running[event.slot]
        if event.apart:
            self._claiming.keep_apart(running.held.campaign, running.queued.campaign.revision)
        for ended in event.ends:
            running = self._held_tasks.leave(event.slot, now)
            self._conclude(running, ended, ended.phases.get("run_s", now - running.since), now)
        if event.unbegun:
            self._held_tasks.take_back(event.slot, event.unbegun)
        if shutting_down:
            self.hand_back_queue()

    def _batch_moved(self, event: ev.BatchMoved, now: float, *, signalled: bool) -> Optional[str]:
        """Report the ends of tasks that began together; as `ended`."""
        self._held_tasks.note_begun(event.slot, event.begun)
        for held, ended in event.ends:
            running = self._held_tasks.leave_together(event.slot, held)
            if running is not None:
                took_s = ended.phases.get("run_s", now - running.since)
                with_agent = signalled and is_by_ending_signal(ended)
                self._conclude(running, ended, took_s, now, with_agent=with_agent)
        if event.too_large_as is not None:
            terms, failed_as = event.campaign, event.too_large_as
            size = self._claiming.gathering.learn(terms, too_large_as=failed_as)
            if size is not None:
                why = f"tasks failed only together, {failed_as}" if failed_as else "all went well"
                text = "%s: at most %d tasks begin together from now on, since %s"
                self._out.log(logging.WARNING, text, terms.path, size, why)
        if event.over:
            for running in self._held_tasks.free_slot(event.slot):
                self._conclude(running, Ended(RELEASED, started=False), 0.0, now)
        faults = [ended.error or "" for _, ended in event.ends if ended.node_broken]
        return faults[0] if faults else None

    def ended(self, event: SlotEvent, now: float, *, signalled: bool = False) -> Optional[str]:
        """Report ends of attempts, unless their leases were revoked.

        Returns what is wrong with this node, if that ended one.
        signalled: the agent got a signal that ends it, which may have ended payloads too.
        """
        if isinstance(event, ev.BatchMoved):
            return self._batch_moved(event, now, signalled=signalled)
        with_agent = signalled and is_by_ending_signal(event.ended)
        running = self._held_tasks.leave(event.slot, now)
        self._conclude(running, event.ended, now - running.since, now, with_agent=with_agent)
        return event.ended.error or "" if event.ended.node_broken else None

    def _conclude(
        self,
        running: RunningTask,
        ended: Ended,
        took_s: float,
        now: float,
        *,
        with_agent: bool = False,
    ) -> None:
        stopped = with_agent or running.stop_sent_at is not None
        if stopped and running.together and not running.begun and ended.outcome == FAILED:
            ended = Ended(RELEASED, started=False)  # nobody knows that it had begun
        if ended.started and not (ended.node_broken or ended.refused):
            self._claiming.attempted(took_s, done=ended.outcome == DONE)
            if ended.outcome == DONE:
                self._claiming.learn_run(running.queued.campaign, took_s)
        report = ended_report(
            running.held,
            ended,
            wait_s=running.wait_s,
            stopped=stopped,
            out_of_time_s=took_s if running.out_of_time else None,
            recipe=running.queued.campaign.recipe,
        )
        self._update_campaign_backoff(report, running, now)
        if not running.revoked:
            if ended.kept:
                self._held_tasks.kept[running.held] = ended.kept
            self._report(report)
            self._out.add(self._progress.ended(running.queued.task.key, took_s, report, now))
            if not ended.raised:
                self._update_throttle(report, running, now)

    def revoke(self, *attempts: Held) -> None:
        """Drop attempts whose leases are no longer valid."""
        revoked = frozenset(attempts)
        for held in revoked:
            if self._held_tasks.queue.pop(held, None) is not None:
                self._out.log(logging.DEBUG, "task %d was taken back", held.task)
        for running in self._held_tasks.in_slots():
            if running.held in revoked and not running.revoked:
                running.revoked = True
                text = "task %s was taken back: stopping it"
                self._out.log(logging.INFO, text, running.queued.task.key)

    def revoke_others(self, left: LeftOfClaim) -> None:
        """Drop the attempts of a claim whose leases are no longer valid: all but those left."""
        self.revoke(*self.naming.others_than(left))

    def stop_tasks(self, now: float, *, all_stop: bool) -> None:
        """Stop the slots whose tasks must stop, or all of them."""
        out_of_time = all_stop and now >= self._claiming.stop_at
        for slot in self._held_tasks.slots_to_stop(now, all_stop=all_stop, out_of_time=out_of_time):
            self._out.add(ev.StopTask(slot))

    def lose_session(self) -> None:
        """Go on without a session, with those tasks that may."""
        self.naming.lose_session()
        self.stop_disconnected()

    def stop_disconnected(self) -> None:
        """Hand back tasks that must not run once the queue may have given them to another agent."""
        not_begun, begun = self._held_tasks.give_up_disconnected()
        for task in not_begun:
            self._hand_back(task)
        for running in begun:
            text = "the queue has not answered for too long: stopping task %s"
            self._out.log(logging.WARNING, text, running.queued.task.key)

    def hand_back_queue(self) -> None:
        """Hand back all tasks that have not begun."""
        for queued in self._held_tasks.queue.values():
            self._hand_back(queued.task)
        self._held_tasks.queue.clear()
        for slot in self._held_tasks.behind:
            self._out.add(ev.TakeBack(slot))

    def set_suspect(self, why: str, now: float, *, reported: bool) -> None:
        """Note why the queue suspects this host, if it does; then hand back queued tasks.

        reported: whether the answered heartbeat reported trouble.
        """
        was, throttle = self._claiming.throttle.suspect, self._claiming.throttle
        if throttle.set_suspect(why, now, reported=reported):
            self._out.log(logging.WARNING, "the queue does not blame this host: claiming as usual")
        if why and not was:
            if throttle.only:
                self._hand_back_queued(throttle.only)
            else:
                self.hand_back_queue()
            what = ", but for campaigns that work here" if throttle.only else ""
            text = "more fails on this host than on others: %s: slowing down%s"
            self._out.log(logging.WARNING, text, why, what)
        elif was and not why:
            self._out.log(logging.WARNING, "this host is like others again: claiming as usual")

    def set_bans(self, bans: Tuple[CampaignBan, ...]) -> None:
        """Note for which campaigns this host or site is banned; hand back their queued tasks."""
        queue, campaign_bans = self._held_tasks.queue, self._claiming.campaign_bans
        for ban in campaign_bans.set(bans):
            text = "%s is left out from now on, since this host or site is banned for it: %s"
            self._out.log(logging.WARNING, text, ban.path, ban.why)
        for held in [held for held, it in queue.items() if campaign_bans.cover(it.campaign)]:
            self._hand_back(queue.pop(held).task)

    def _update_throttle(self, report: Report, running: RunningTask, now: float) -> None:
        """Count the outcome; if the throttle engages, hand back all tasks that have not begun."""
        throttle = self._claiming.throttle
        was_active = throttle.active
        terms, attempt = running.queued.campaign, running.queued.task.attempt
        begins = throttle.ended(report, attempt, running.since, now, terms.revision)
        if throttle.holds_back(terms.campaign, terms.revision, (), now):
            self._hand_back_queued({terms.campaign})
        trouble = throttle.trouble(now)
        if begins and trouble is not None:
            self.hand_back_queue()
            text = "%d attempts in a row have failed within seconds, the last as %s: slowing down"
            self._out.log(logging.WARNING, text, trouble.failures, trouble.error_class or "nothing")
        elif was_active and trouble is None and not throttle.only:
            self._out.log(
                logging.WARNING, "an attempt did not fail within seconds: claiming as usual"
            )

    def _update_campaign_backoff(self, report: Report, running: RunningTask, now: float) -> None:
        """Note whether the campaign can run here; if not, hand back its queued tasks."""
        terms, campaign_backoff = running.queued.campaign, self._claiming.campaign_backoff
        campaign = terms.campaign
        if not report.refused:
            if report.outcome != RELEASED:
                campaign_backoff.ran(campaign)
            return
        pause_s = campaign_backoff.refused(campaign, terms.revision, running.since, now)
        if pause_s is None:
            return
        self._hand_back_queued({campaign})
        error = " ".join((report.error or "").split())[:_SHOWN_ERROR_CHARS]
        text = "%s cannot be run here, trying again in %.0f s: %s: %s"
        self._out.log(logging.WARNING, text, terms.path, pause_s, report.error_class, error)

    def _is_excluded(self, campaign: CampaignTerms, now: float) -> bool:
        campaign_backoff, throttle = self._claiming.campaign_backoff, self._claiming.throttle
        if not (campaign_backoff or throttle.only):
            return False
        its = campaign.campaign, campaign.revision, self._held_tasks.campaigns(), now
        return campaign_backoff.excludes(*its) or throttle.holds_back(*its)

    def _is_throttled(self, now: float) -> bool:
        throttle = self._claiming.throttle
        return throttle.active and (self._held_tasks.tasks() > 0 or now < throttle.try_at)

    def _hand_back_queued(self, campaigns: Collection[int]) -> None:
        """Hand back the tasks of some campaigns that have not begun."""
        for held in [held for held in self._held_tasks.queue if held.campaign in campaigns]:
            self._hand_back(self._held_tasks.queue.pop(held).task)

    def _hand_back(self, task: Task) -> None:
        self._progress.handed_back()
        self._report(unstarted_report(fence(task)))

    def _report(self, report: Report) -> None:
        held, text = fence(report), line(report)
        self._held_tasks.reports[held] = (report, len(text))
        self._out.add(ev.SpoolReport(held, text))


def _running(queued: QueuedTask, now: float, *, together: bool = False) -> RunningTask:
    waited_s = now - queued.since
    return RunningTask(fence(queued.task), queued, now, waited_s, together=together)
