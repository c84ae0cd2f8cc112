"""Handler `{"kind": "command", "argv": [...]}`: a program started for each task.

Its arguments may contain placeholders, see `definition`. Its working folder is the scratch
folder. `exits` defines its exit codes. The result is the first of:

- the JSON object in the file that `$TASKQ_RESULT` names, if there is one: the only way for a result
  of more than `MAX_RESULT_BYTES`;
- the last line of standard output, if that is a JSON object;
- `{"stdout": text}` with the last `MAX_STDOUT_BYTES` of standard output, for commands that print a
  number or a name;
- `{}`.

The kept tail mixes standard output and standard error, roughly in the order in which they came.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Callable, Dict, List, Mapping, Optional

from taskq_agent.handlers import containers, environment, exits, results
from taskq_agent.handlers.base import AttemptOver, Ended, failed, timed
from taskq_agent.handlers.containers import removed
from taskq_agent.handlers.definition import PlaceholderMissing, fill
from taskq_agent.handlers.environment import KindContext
from taskq_agent.handlers.live import Tail
from taskq_agent.handlers.processes import Group, Sink
from taskq_agent.protocol import MAX_RESULT_BYTES, MAX_TAIL_BYTES, Task
from taskq_agent.text import clean

MAX_STDOUT_BYTES = 1_024


def run_program(
    context: KindContext,
    argv: List[str],
    folder: str,
    env: Mapping[str, str],
    *,
    on_stdout: Sink,
    output: Tail,
    wait: Callable[[Group], object],
) -> Optional[Ended]:
    """Run a program to its end, in a container if the campaign has one.

    Returns the end that its exit code stands for, None for 0. Raises AttemptOver if it cannot be
    started. output: takes its standard error. wait: returns when it has exited, or raises
    AttemptOver if it must end before.
    """
    box = containers.contained(context, argv, folder, {**context.own_env, **env})
    cut: Optional[Ended] = None
    with removed(box):
        try:
            group = Group(
                argv if box is None else box.argv,
                cwd=folder,
                env={**context.env, **(env if box is None else box.env)},
                watch=context.watch,
                on_stdout=on_stdout,
                on_stderr=output.add,
                is_client=box is not None and box.is_client,
            )
        except (OSError, ValueError, RuntimeError) as error:
            raise AttemptOver(exits.of_start(argv[0], error)) from error
        try:
            wait(group)
        except AttemptOver as over:
            group.terminate(context.settings.grace_s)
            cut = over.ended
        finally:
            code = group.end()
    if cut is None and box is not None:
        cut = containers.of_end(box, code, output.text())
    return cut or exits.of_code(code, group.program)


class CommandKind:
    """Runs tasks as commands."""

    def __init__(self, context: KindContext) -> None:
        self._context = context

    def take_folder(self, name: str, *parts: str) -> str:
        """Return a new scratch folder; see `Kind`."""
        return self._context.folders.take(name, *parts)

    def run(self, task: Task, folder: str) -> Ended:
        """Run one attempt."""
        context = self._context
        values = {"task.key": task.key, "task.attempt": task.attempt, "scratch": folder}
        try:
            argv = fill(
                context.campaign.handler["argv"],
                params=context.campaign.params,
                inputs=context.inputs,
                payload=task.payload,
                task=values,
            )
        except PlaceholderMissing as error:
            return error.ended()
        env = environment.of_task(task, folder)
        output, stdout = Tail(MAX_TAIL_BYTES), Tail(MAX_RESULT_BYTES + 2)
        context.live.writes_to(output)

        def both(chunk: bytes) -> None:
            output.add(chunk)
            stdout.add(chunk)

        phases: Dict[str, float] = {}
        try:
            with timed(phases, "run_s"):
                ended = run_program(
                    context,
                    argv,
                    folder,
                    env,
                    on_stdout=both,
                    output=output,
                    wait=lambda group: group.wait_until(lambda: group.exited),
                )
        except AttemptOver as over:
            return over.ended
        return replace(ended or _success(folder, stdout), phases=phases, tail=output.text())

    def close(self) -> None:
        """Do nothing: no command outlives its task."""


def _success(folder: str, stdout: Tail) -> Ended:
    try:
        try:
            return results.ended_with_file(folder)
        except FileNotFoundError:
            return results.ended_with(_from_stdout(stdout.bytes().strip()))
    except results.BadResult as error:
        return failed("bad-result", str(error), retry=False)


def _from_stdout(text: bytes) -> Mapping[str, Any]:
    if not text:
        return {}
    last = text[max(text.rfind(b"\n"), text.rfind(b"\r")) + 1 :]
    if len(last) > MAX_RESULT_BYTES and last.endswith(b"}"):
        raise results.BadResult(f"the last line of output has more than {MAX_RESULT_BYTES} bytes")
    if last.startswith(b"{"):
        try:
            return dict(results.parsed(last))
        except results.BadResult:
            raise
        except ValueError:  # a line in braces need not be JSON
            pass
    shown = clean(text[-MAX_STDOUT_BYTES:].decode("utf-8", "replace"))
    return {"stdout": shown} if shown else {}
