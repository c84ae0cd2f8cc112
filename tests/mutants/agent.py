"""Bugs in the agent: its core and its spool."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_CORE: Final = ("tests/unit/test_agent_core.py", "tests/unit/test_agent_core_gateway.py")
_SPOOL: Final = ("tests/unit/test_agent_spool.py",)

AGENT: Final = (
    Mutant(
        "spool-forgets-before-the-verdict",
        "agents/taskq_agent/core/core.py",
        "                self._out.add(call)\n",
        "                self._out.add(call)\n"
        "                if isinstance(call, Request):\n"
        "                    from taskq_agent.core.reports import fence\n"
        "                    gone = tuple(fence(one) for one in call.reports)\n"
        "                    self._out.add(*([ev.ForgetReports(gone)] if gone else []))\n",
        "A report leaves the disk when it is sent, not when the queue has it.",
        _CORE,
    ),
    Mutant(
        "claim-is-repeated-under-another-lease",
        "agents/taskq_agent/core/core.py",
        "            call = calls.call or self._next_call()\n",
        "            call = self._next_call()\n",
        "A claim whose answer was lost is made anew, so that the first one's tasks are forgotten.",
        _CORE,
    ),
    Mutant(
        "beat-is-silent-about-the-claim-in-the-air",
        "agents/taskq_agent/core/core.py",
        "pending=() if claim is None else (claim.lease,),",
        "pending=(),",
        "A beat gives away tasks whose answer is on its way.",
        _CORE,
    ),
    Mutant(
        "former-session-gives-orders",
        "agents/taskq_agent/core/core.py",
        "        if event.session == self._calls.session:\n",
        "        if event.session:\n",
        "An order to a former session is obeyed in the next one.",
        _CORE,
    ),
    Mutant(
        "agent-stops-by-task",
        "agents/taskq_agent/core/task_flow.py",
        "if running.held in revoked and not running.revoked:",
        "if running.held.task in {one.task for one in revoked} and not running.revoked:",
        "An order to stop an old attempt stops the next one of the task.",
        _CORE,
    ),
    Mutant(
        "reports-under-way-are-not-held",
        "agents/taskq_agent/core/naming.py",
        "            *(held for held in held_tasks.reports if held not in held_tasks.inherited),\n",
        "",
        "An attempt is given away while its report is under way.",
        _CORE,
    ),
    Mutant(
        "attempt-begun-twice",
        "agents/taskq_agent/core/held_tasks.py",
        "            or any(running.held == held for running in self.running.values())\n",
        "",
        "A task that is given twice is begun again while it runs.",
        _CORE,
    ),
    Mutant(
        "any-answer-renews-the-lease",
        "agents/taskq_agent/core/call_state.py",
        "        if self.is_long_polling():\n",
        "        if self.in_flight:\n",
        "Exchanges, which the queue takes for no beat, keep tasks running when beats are lost.",
        ("tests/unit/test_agent_core_gateway.py",),
    ),
    Mutant(
        "verdict-on-one-settles-all",
        "agents/taskq_agent/core/delivery.py",
        "            forgotten.append(held)\n            self._progress.acknowledged(ack)\n",
        "            forgotten += [held, *self._held_tasks.reports]\n"
        "            self._progress.acknowledged(ack)\n",
        "Reports without a verdict leave the disk with those that have one.",
        _CORE,
    ),
    Mutant(
        "answers-of-anybody-count",
        "agents/taskq_agent/http/answers.py",
        "    return response.getheader(ANSWER_HEADER) is not None\n",
        "    return True\n",
        "A portal that says 204 has stored a result, and a proxy's errors are a gateway's.",
        ("tests/integration/agent/http/test_requests.py",),
    ),
    Mutant(
        "lost-report-keeps-others-back",
        "agents/taskq_agent/core/delivery.py",
        "first_reports(without={**self._withheld, **self._held_tasks.kept})",
        "first_reports(without=self._held_tasks.kept)",
        "A report that a filter dislikes goes along with the others, again and again.",
        ("tests/unit/test_agent_lost_reports.py",),
    ),
    Mutant(
        "kept-report-goes-before-its-result",
        "agents/taskq_agent/core/delivery.py",
        "first_reports(without={**self._withheld, **self._held_tasks.kept})",
        "first_reports(without=self._withheld)",
        "A report refers to a result that the queue does not have yet.",
        ("tests/unit/test_agent_lost_reports.py",),
    ),
    Mutant(
        "session-closes-over-a-spool",
        "agents/taskq_agent/core/shutdown.py",
        " and not (undelivered and self.settings.spool_dir)",
        "",
        "What the next agent of the spool could report is computed again.",
        ("tests/unit/test_agent_lost_reports.py",),
    ),
    Mutant(
        "filter-ends-a-session",
        "agents/taskq_agent/heartbeat.py",
        "            heartbeat = without_texts(heartbeat)\n",
        "            pass\n",
        "A filter that dislikes what an attempt prints lets no heartbeat through.",
        ("tests/unit/test_agent_updates.py",),
    ),
    Mutant(
        "refusal-of-before-a-change-ends-a-pause",
        "agents/taskq_agent/backoff.py",
        "revision < known.revision and begun < known.since",
        "False",
        "An agent forgets that it cannot run a campaign as it is now.",
        ("tests/unit/test_agent_abstaining.py",),
    ),
    Mutant(
        "spool-by-default-forgets-at-the-end",
        "agents/taskq_agent/spool.py",
        "        if self._lines and (self._file is None or self._retry_at is not None):",
        "        if self._lines and self._retry_at is not None:",
        "What an agent could not deliver is lost at its end.",
        _SPOOL,
    ),
    Mutant(
        "spool-of-the-living-is-taken-over",
        "agents/taskq_agent/spool.py",
        "                lock_at_once(file.fileno(), fcntl.LOCK_EX, _OPTION)\n"
        "                status",
        "                status",
        "An agent takes the reports of another that lives, and removes its file.",
        _SPOOL,
    ),
    Mutant(
        "torn-line-stays",
        "agents/taskq_agent/spool.py",
        "            os.ftruncate(file, self._file_bytes)\n",
        "",
        "A line that a full disk has cut spoils the next one.",
        _SPOOL,
    ),
    Mutant(
        "inherited-reports-leave-the-disk",
        "agents/taskq_agent/spool.py",
        "                if self._lines:\n                    self._rewrite()\n",
        "",
        "What was taken over is on no disk until it is sent.",
        _SPOOL,
    ),
    Mutant(
        "lease-ids-fall-with-the-clock",
        "agents/taskq_agent/lease_ids.py",
        "max(self._last_ms + 1, self._clock_ns() // 1_000_000)",
        "self._clock_ns() // 1_000_000",
        "A clock that is set back makes leases that beats take for old ones.",
        ("tests/unit/test_agent_wire.py",),
    ),
    Mutant(
        "texts-are-sent-whole",
        "agents/taskq_agent/wire.py",
        "if text and (short := clean(text)[:most]) != text:",
        "if text and (short := clean(text)) != text:",
        "A long error class makes a gateway refuse the report, and the work with it.",
        ("tests/unit/test_message_types.py",),
    ),
    Mutant(
        "member-without-a-limit-loads",
        "taskq/gateway/message_types.py",
        "    if not limited and (origin or annotation) in",
        "    if not limited and origin in",
        "A new member of a message may be as large as its sender likes.",
        ("tests/unit/test_message_types.py",),
    ),
)
