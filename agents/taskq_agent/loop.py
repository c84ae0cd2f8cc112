"""Event loop around the core: turns what happens into events, and actions into effects.

    caller, heartbeats, slots (threads), signals --events--> loop --actions--> caller, slots, spool

Only the loop calls the core, under a lock. The heartbeat thread takes the same lock to copy what is
held. The loop waits for nothing but events, and for a second at most, so it always makes progress.
Watchdogs detect a part that makes none: the loop checks the other threads, the heartbeat thread
checks the loop.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import random
import signal
import tempfile
import threading
import time
from contextlib import ExitStack, nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Callable, ContextManager, Dict, List, Optional, Sequence, Tuple, Union

from taskq_agent import exit_codes, folders, mps, strays
from taskq_agent.core import events as ev
from taskq_agent.core.core import AgentCore
from taskq_agent.core.shutdown import PATIENCE_S
from taskq_agent.handlers import MemoryRoom, Runner, RunnerSettings, make_runner
from taskq_agent.heartbeat import HeartbeatThread
from taskq_agent.host_warnings import Warnings, with_warnings
from taskq_agent.kept_results import KeptResults
from taskq_agent.lease_ids import LeaseIds
from taskq_agent.protocol import Heartbeat, Hello, Request
from taskq_agent.resources import with_protocol
from taskq_agent.room import Room
from taskq_agent.settings import AgentSettings
from taskq_agent.signals import ENDING_SIGNALS
from taskq_agent.spool import Spool
from taskq_agent.task_messages import Update
from taskq_agent.threads import CHECK_S, Caller, Slot, Watchdog
from taskq_agent.transport import Transport
from taskq_agent.updates import UpdateCollector, with_updates

log = logging.getLogger(__name__)

_STOP_SLOTS_S = 10.0
_LAST_CALL_S = 1.0
_LAST_WORDS_S = 1.0


@dataclass(frozen=True)
class AgentSummary:
    """Counts of an agent's attempts, and why it ended.

    released: handed back, begun or not. superseded: how many of all these did not count, since
    their leases were no longer valid. undelivered: reports that did not reach the queue; they stay
    in the spool, if there is one.
    """

    done: int
    failed: int
    released: int
    superseded: int
    undelivered: int
    reason: str
    exit_code: int


def agent_of_processes(
    transport: Transport, settings: AgentSettings, runner: RunnerSettings
) -> Agent:
    """Return an agent of processes, the only one of this process.

    Its `run` raises OSError if this node cannot start them. What agents before it have left on this
    node goes.
    """
    strays.adopt_orphans()
    root = runner.scratch_root
    threading.Thread(target=folders.remove_leftovers, args=(root,), daemon=True).start()
    memory = None if runner.node.memory is None else MemoryRoom(runner.node.memory)
    return Agent(
        transport,
        settings,
        lambda slot: make_runner(slot, runner, transport, memory),
        room=Room(runner.node),
        scratch=root or Path(tempfile.gettempdir()),
        service=mps.serving(runner.node, root) if runner.mps else None,
    )


class Agent:
    """An agent: works until there is a reason to shut down.

    make_runner: makes the runner of a slot, numbered from 0. `run` passes its exceptions on, and
    has claimed nothing then. scratch: the folder whose disk is watched. room: what is counted of
    the node. service: entered before the runners are made, and left after they have ended. abandon:
    ends the process at once with an exit code; called when the loop itself hangs.
    """

    def __init__(
        self,
        transport: Transport,
        settings: AgentSettings,
        make_runner: Callable[[int], Runner],
        *,
        scratch: Optional[Path] = None,
        room: Optional[Room] = None,
        service: Optional[ContextManager[object]] = None,
        abandon: Callable[[int], object] = os._exit,
    ) -> None:
        self._transport = transport
        self._settings = settings
        self._make_runner = make_runner
        self._scratch = scratch
        self._room = room
        self._service = service or nullcontext()
        self._abandon = abandon
        # A signal handler may interrupt `put` and call it again: SimpleQueue is reentrant.
        self._events: SimpleQueue[ev.Event] = SimpleQueue()
        self._lock = threading.Lock()
        self._loop_watchdog = Watchdog(settings.watchdog_s)

    def terminate(self, patience_s: float = 0.0) -> None:
        """Ask the agent to shut down; a further call: at once. May be called from any thread.

        patience_s: within so many seconds of the first call, this one changes nothing.
        """
        self._events.put(ev.TermSignal(patience_s))

    def wake(self) -> None:
        """Make the agent claim soon, since there may be tasks. May be called from any thread."""
        self._events.put(ev.Woken())

    def run(self) -> AgentSummary:
        """Work, once. In the main thread, all `ENDING_SIGNALS` mean `terminate` meanwhile.

        One that is ignored, such as SIGHUP under nohup, or that has a handler, stays as it is; but
        SIGTERM and SIGINT are always taken.
        """
        settings = self._settings
        with ExitStack() as stack:
            stack.enter_context(self._service)
            spool, results, inherited = None, None, []
            if settings.spool_dir is not None:
                patience_s = settings.spool_patience_s
                spool = Spool(settings.spool_dir, settings.name, patience_s=patience_s)
                stack.callback(spool.close)
                inherited = spool.open()
                results = KeptResults(settings.spool_dir, self._transport, self._events.put)
                stack.callback(results.close)
            core = AgentCore(
                settings,
                now=time.monotonic(),
                draw_hello=partial(settings.draw_hello, offers=with_protocol(settings.offers)),
                draw_lease=LeaseIds(),
                uniform=random.random,
                inherited=inherited,
                kept=results.look(report for report, _ in inherited) if results else {},
                room=self._room,
            )
            self._install_signal_handlers(stack)
            caller = Caller(self._transport, self._events.put, Watchdog(settings.watchdog_s))
            stack.callback(caller.close, _LAST_CALL_S)
            slots: List[Slot] = []
            warnings = Warnings(self._scratch, spool, slots)
            updates = UpdateCollector(slots, warnings.look_at_disk)
            stack.callback(updates.close)
            heartbeats = HeartbeatThread(
                self._transport,
                lambda followed: self._snapshot(core, updates.collect(followed), warnings),
                self._events.put,
                self._check_loop,
                heard=warnings.heard,
                is_called_for=warnings.calls_for_heartbeat,
                watchdog=Watchdog(settings.watchdog_s),
            )
            stack.callback(heartbeats.close, _LAST_CALL_S)
            stack.callback(_stop_slots, slots)
            for number in range(settings.slots):
                runner = self._make_runner(number)
                slots.append(Slot(number, runner, self._events.put))

            def opened(action: ev.StartHeartbeats) -> None:
                warnings.opened(action.welcome)
                heartbeats.keep(action.welcome)

            def close(action: ev.CloseSession) -> None:
                heartbeats.leave()
                caller.call(action)

            if results is not None:
                results.start()
            handlers = _action_handlers(caller, opened, close, slots, (spool, results))
            end = self._loop(core, handlers, [caller, heartbeats], warnings.note)
        summary = AgentSummary(
            **asdict(core.totals()),
            undelivered=core.undelivered(),
            reason=end.reason,
            exit_code=end.code,
        )
        log.info(
            "the agent has left: %d done, %d failed, %d handed back, %d of these superseded, "
            "%d reports undelivered",
            summary.done,
            summary.failed,
            summary.released,
            summary.superseded,
            summary.undelivered,
        )
        if summary.undelivered:
            kept = "lost, and their tasks run again: name another --spool"
            if spool is not None and not spool.is_unusable:
                kept = f"in {spool.path}: the next agent with this --spool sends them"
                if settings.spool_patience_s:
                    kept = f"in {spool.path}: the user's next agent for this queue sends them"
            log.warning("reports that did not come through are %s", kept)
        return summary

    def _loop(
        self,
        core: AgentCore,
        action_handlers: Dict[type, Callable[[Any], object]],
        watched: List[Union[Caller, HeartbeatThread]],
        note: Callable[[ev.Event], object],
    ) -> ev.Exit:
        check_at = 0.0
        event: ev.Event = ev.Tick()
        while True:
            now = time.monotonic()
            note(event)
            with self._lock:
                actions = core.handle(event, now)
                due = core.due()
            for action in actions:
                if isinstance(action, ev.Exit):
                    return action
                action_handlers[type(action)](action)
            self._loop_watchdog.reset()
            if now >= check_at:
                check_at = now + CHECK_S
                hung = [part for part in watched if part.is_hung(now)]
                for part in hung:
                    watched.remove(part)
                    self._events.put(ev.AgentFailed(f"{part.task} does not return"))
            event = self._next_event(due - now)

    def _next_event(self, wait_s: float) -> ev.Event:
        try:
            return self._events.get(timeout=min(max(wait_s, 0.0), CHECK_S))
        except Empty:
            return ev.Tick()

    def _snapshot(
        self, core: AgentCore, updates: Sequence[Update], warnings: Warnings
    ) -> Optional[Heartbeat]:
        words = warnings.words()
        with self._lock:
            heartbeat = core.heartbeat(news=warnings.is_news(words))
        return with_updates(with_warnings(heartbeat, words, warnings.cause()), updates)

    def _check_loop(self) -> None:
        if self._loop_watchdog.is_hung(time.monotonic()):
            # In a thread, and not for long: what hangs may be whatever takes the log.
            last_words = threading.Thread(target=_show_hang, daemon=True)
            last_words.start()
            last_words.join(_LAST_WORDS_S)
            self._abandon(exit_codes.AGENT_BROKEN)

    def _install_signal_handlers(self, stack: ExitStack) -> None:
        # A signal just before the loop waits is handled after the wait, which is short.
        if threading.current_thread() is threading.main_thread():
            # A second Ctrl-C is meant. Another signal may come from the script of the same job.
            always = (signal.SIGTERM, signal.SIGINT)
            for number in ENDING_SIGNALS:
                if number in always or signal.getsignal(number) is signal.SIG_DFL:
                    after = 0.0 if number == signal.SIGINT else PATIENCE_S
                    former = signal.signal(number, lambda *_, after=after: self.terminate(after))
                    stack.callback(signal.signal, number, former)


def _action_handlers(
    caller: Caller,
    opened: Callable[[ev.StartHeartbeats], object],
    close: Callable[[ev.CloseSession], object],
    slots: List[Slot],
    spools: Tuple[Optional[Spool], Optional[KeptResults]],
) -> Dict[type, Callable[[Any], object]]:
    spool, results = spools

    def spool_report(action: ev.SpoolReport) -> None:
        if spool is not None:
            spool.add(action.held, action.line)

    def forget_reports(action: ev.ForgetReports) -> None:
        if spool is not None:
            spool.forget(action.reports)
        if results is not None:
            results.forget(action.reports)

    return {
        Hello: caller.call,
        Request: caller.call,
        ev.CloseSession: close,
        ev.CancelExchange: lambda action: caller.cancel_exchange(action.request),
        ev.StartHeartbeats: opened,
        ev.StartTask: lambda action: slots[action.slot].start(
            action.tasks, action.campaign, action.grant
        ),
        ev.TakeBack: lambda action: slots[action.slot].runner.take_back(),
        ev.StopTask: lambda action: slots[action.slot].runner.stop(),
        ev.SpoolReport: spool_report,
        ev.ForgetReports: forget_reports,
        ev.LogMessage: lambda action: log.log(action.level, action.text, *action.args),
    }


def _show_hang() -> None:
    log.critical("the agent hangs: giving up")
    faulthandler.dump_traceback(file=2)


def _stop_slots(slots: List[Slot]) -> None:
    deadline = time.monotonic() + _STOP_SLOTS_S
    for slot in slots:
        slot.runner.stop()
        slot.finish()
    for slot in slots:
        slot.join(max(0.0, deadline - time.monotonic()))
