"""An agent as it is, with a witness next to it that writes down what the queue answers.

    python -m tests.chaos.witness http run --gateway ...        # as `taskq-agent run`
    python -m tests.chaos.witness direct agent run ...          # as `taskq agent run`

In the environment: CHAOS_HISTORY, the folder of the history. Its name for this agent is that of
`--name`, which payloads find in CHAOS_AGENT.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from typing import Any

from taskq_agent.protocol import Answer, Held, Hello, Input, Report, Request, Welcome
from tests.chaos.history import Writer

_EXECUTION = re.compile(r"execution ([0-9a-f]{16})")
_KEPT = re.compile(rb"kept ([0-9a-f]{16}) (\d+)\n")


def execution_in(result: Any, error: str | None) -> str | None:
    """Return the execution that a result or an error names, None if there is none."""
    if isinstance(result, dict) and "execution" in result:
        return str(result["execution"])
    found = _EXECUTION.search(error or "")
    return found[1] if found else None


def witnessed(
    exchange: Callable[[Any, Request], Answer], history: Writer, agent: str
) -> Callable[[Any, Request], Answer]:
    """Return an exchange that writes down what it is answered."""

    def exchanged(transport: Any, request: Request) -> Answer:
        answer = exchange(transport, request)
        reports: dict[tuple[int, str], Report] = {}
        for report in request.reports:
            reports.setdefault((report.task, report.lease), report)
        for ack in answer.acks:
            report = reports[ack.task, ack.lease]
            history.note(
                "answered",
                task=ack.task,
                lease=ack.lease,
                outcome=report.outcome,
                verdict=ack.verdict,
                execution=execution_in(report.result, report.error),
            )
        for task in answer.tasks:
            history.note(
                "claimed",
                agent=agent,
                task=task.task,
                key=task.key,
                attempt=task.attempt,
                lease=task.lease,
            )
        return answer

    return exchanged


def seen_in(
    open_session: Callable[[Any, Hello], Welcome], history: Writer
) -> Callable[[Any, Hello], Welcome]:
    """Return an opening of sessions that writes down which were asked for, and which opened."""

    def opened(transport: Any, hello: Hello) -> Welcome:
        history.note("opening", session=hello.key, host=hello.host, site=hello.site)
        welcome = open_session(transport, hello)
        history.note("opened", session=hello.key)
        return welcome

    return opened


def watch_checkpoints(transport: Any, history: Writer) -> None:
    """Let a kind of transport write down which checkpoints were saved, as it was answered."""
    write_blob, save_checkpoint = transport.write_blob, transport.save_checkpoint
    kept: dict[str, re.Match[bytes]] = {}

    def written(self: Any, digest: str, data: bytes) -> None:
        if found := _KEPT.search(data):
            kept[digest] = found
        write_blob(self, digest, data)

    def saved(self: Any, held: Held, checkpoint: Input) -> bool:
        is_held: bool = save_checkpoint(self, held, checkpoint)
        if is_held:
            execution, step = kept[checkpoint.digest].groups()
            history.note(
                "saved",
                task=held.task,
                lease=held.lease,
                execution=execution.decode(),
                step=int(step),
            )
        return is_held

    transport.write_blob, transport.save_checkpoint = written, saved


def main() -> None:
    """Run the agent that the command line asks for."""
    kind = sys.argv.pop(1)
    agent = os.environ["CHAOS_AGENT"] = sys.argv[sys.argv.index("--name") + 1]
    history = Writer(os.environ["CHAOS_HISTORY"], f"agent-{agent}", piped=True)
    transport: Any
    program: Callable[[], object]
    if kind == "http":
        from taskq_agent.__main__ import main as program  # noqa: PLC0415  # one of the two
        from taskq_agent.http.transport import HttpTransport as transport  # noqa: N813, PLC0415
    else:
        from taskq.dispatch.direct import DirectTransport as transport  # noqa: N813, PLC0415
        from taskq_cli.main import main as program  # noqa: PLC0415
    transport.exchange = witnessed(transport.exchange, history, agent)
    transport.open = seen_in(transport.open, history)
    watch_checkpoints(transport, history)
    sys.exit(program())


if __name__ == "__main__":
    main()
