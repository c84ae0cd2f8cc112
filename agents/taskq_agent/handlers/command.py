"""The handler `{"kind": "command", "argv": [...]}`: a program started anew for each task.

Its arguments may hold placeholders, see `placeholders`; its working folder is the scratch
folder, its exit code speaks as in `exits`. The result is, in this order:

- the JSON object in the file that `$TASKQ_RESULT` names, if there is one;
- the last line of standard output, if that is a JSON object;
- `{"stdout": text}` with the last `MAX_STDOUT_BYTES` of standard output, for commands that
  print a number or a name;
- `{}`.

In the kept tail, standard output and standard error are mixed roughly as they came.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from dataclasses import replace
from typing import Any, Dict, Mapping, Optional

from taskq_agent.handlers import environment, exits, placeholders, results
from taskq_agent.handlers.base import AttemptOver, Ended, done, failed, timed
from taskq_agent.handlers.group import Group
from taskq_agent.handlers.output import Tail, clean
from taskq_agent.handlers.watch import Watch
from taskq_agent.protocol import MAX_RESULT_BYTES, MAX_TAIL_BYTES, Campaign, Task

MAX_STDOUT_BYTES = 1_024

_MAX_FILE_BYTES = 4 * MAX_RESULT_BYTES  # it may be indented


class CommandKind:
    """Runs tasks as commands."""

    def __init__(self, campaign: Campaign, watch: Watch, grace_s: float) -> None:
        self._campaign = campaign
        self._watch = watch
        self._grace_s = grace_s
        self._env = environment.of_campaign(campaign)

    def run(self, task: Task, folder: str) -> Ended:
        """Run one attempt."""
        values = {"task.key": task.key, "task.attempt": task.attempt, "scratch": folder}
        try:
            argv = placeholders.fill(
                self._campaign.handler["argv"],
                params=self._campaign.params,
                payload=task.payload,
                task=values,
            )
        except placeholders.PlaceholderMissing as error:
            return failed("placeholder-missing", str(error), retry=False)
        output, stdout = Tail(MAX_TAIL_BYTES), Tail(MAX_RESULT_BYTES + 2)

        def both(chunk: bytes) -> None:
            output.add(chunk)
            stdout.add(chunk)

        phases: Dict[str, float] = {}
        cut: Optional[Ended] = None
        with timed(phases, "run_s"):
            try:
                group = Group(
                    argv,
                    cwd=folder,
                    env={**self._env, **environment.of_task(task, folder)},
                    watch=self._watch,
                    on_stdout=both,
                    on_stderr=output.add,
                )
            except (OSError, ValueError, RuntimeError) as error:
                return exits.of_start(argv[0], error)
            try:
                group.wait_until(lambda: group.exited)
            except AttemptOver as over:
                group.terminate(self._grace_s)
                cut = over.ended
            finally:
                code = group.end()
        ended = cut or exits.of_code(code) or _success(folder, stdout)
        return replace(ended, phases=phases, tail=output.text())

    def close(self) -> None:
        """Do nothing: no command outlives its task."""


def _success(folder: str, stdout: Tail) -> Ended:
    try:
        text = _result_file(f"{folder}/{environment.RESULT_FILE}")
        result = _from_stdout(stdout.bytes().strip()) if text is None else _from_file(text)
        results.encoded(result)
    except results.BadResult as error:
        return failed("bad-result", str(error), retry=False)
    return done(result)


def _result_file(path: str) -> Optional[bytes]:
    """Return what the command wrote to its result file; None if there is none."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a FIFO would hold us up
    except FileNotFoundError:
        return None
    except OSError as error:
        raise results.BadResult(f"the result file cannot be read: {error}") from None
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise results.BadResult("the result file is not a regular file")
        with open(fd, "rb", closefd=False) as file:
            text = file.read(_MAX_FILE_BYTES + 1)
    finally:
        os.close(fd)
    if len(text) > _MAX_FILE_BYTES:
        raise results.BadResult(f"the result file has more than {_MAX_FILE_BYTES} bytes")
    return text


def _from_file(text: bytes) -> Any:
    try:
        return results.parsed(text)
    except ValueError as error:
        raise results.BadResult(f"the result file is not JSON: {error}") from None


def _from_stdout(text: bytes) -> Mapping[str, Any]:
    if not text:
        return {}
    last = text[max(text.rfind(b"\n"), text.rfind(b"\r")) + 1 :]
    if len(last) > MAX_RESULT_BYTES and last.endswith(b"}"):
        raise results.BadResult(f"the last line of output has more than {MAX_RESULT_BYTES} bytes")
    if last.startswith(b"{"):
        with suppress(ValueError):  # a line in braces need not be JSON
            return dict(results.parsed(last))
    shown = clean(text[-MAX_STDOUT_BYTES:].decode("utf-8", "replace"))
    return {"stdout": shown} if shown else {}
