"""One message under way: a process with a deadline."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, Final

from taskq.upkeep.channels import PASSWORD_VARIABLE, Channels
from taskq.upkeep.targets import Target
from taskq.upkeep.texts import harmless
from taskq_agent.handlers.environment import own

DEADLINE_S: Final = 20.0
_MAX_OUTPUT_BYTES: Final = 2_000
# Not -m, which searches the working folder before the standard library.
_BOOT: Final = (
    "import sys; sys.path[:1] = [p for p in sys.path[:1] if p]\n"
    "from taskq.upkeep.deliver import main; sys.exit(main())"
)


class MessageDelivery:
    """A message that a process delivers. Close it when it has ended, or to end it.

    rule, events: the rule of the message, and the ids of its events.
    """

    def __init__(
        self, rule: str, target: str, message: Mapping[str, Any], channels: Channels
    ) -> None:
        """Start the process; raise `UsageError` or `OSError` if it cannot start."""
        self.rule = rule
        self.events = [event["id"] for event in message["events"]]
        where = Target.parsed(target)
        self._is_program = where.channel == "command"
        argv, words, environment = _prepared(where, message, channels)
        self._output: IO[bytes] = tempfile.TemporaryFile(prefix="taskq-notify-")  # noqa: SIM115  # until closed
        try:
            # A file, not a pipe: a program that does not read holds up nobody.
            with tempfile.TemporaryFile(prefix="taskq-notify-") as given:
                given.write(json.dumps(words).encode())
                given.seek(0)
                self._process = subprocess.Popen(
                    argv,
                    stdin=given,
                    stdout=subprocess.DEVNULL if self._is_program else self._output,
                    cwd="/",
                    env=environment,
                    start_new_session=True,  # Ctrl-C is for the keeper; and all of it can be killed
                )
        except BaseException:
            self._output.close()
            raise
        self._deadline = time.monotonic() + DEADLINE_S

    def ended(self) -> bool:
        """Return whether it has ended; kill it at its deadline."""
        if self._process.poll() is None and time.monotonic() >= self._deadline:
            self._kill()
        return self._process.poll() is not None

    def trouble(self) -> str | None:
        """Return why the message was not delivered; None if it was."""
        code = self._process.poll()
        if code == 0:
            return None
        if code is None or time.monotonic() >= self._deadline:
            return f"not delivered within {DEADLINE_S:g} s"
        if self._is_program:
            return f"the program ended with code {code}"
        self._output.seek(0)
        words = self._output.read(_MAX_OUTPUT_BYTES).decode("utf-8", "replace")
        return harmless(words) or f"its process ended with code {code}"

    def close(self) -> None:
        """End the process and all processes that it started, if it still runs."""
        if self._process.poll() is None:
            self._kill()
        self._output.close()

    def _kill(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def _prepared(
    where: Target, message: Mapping[str, Any], channels: Channels
) -> tuple[list[str], Mapping[str, Any], dict[str, str]]:
    """Return the arguments, the standard input and the environment of a delivery's process."""
    environment = own()
    if where.channel == "command":
        # `NAME` of the target holds no slash: it is a file of the folder.
        return [str((channels.programs or Path("/nowhere")) / where.to)], message, environment
    order: dict[str, Any] = {"channel": where.channel, "to": where.to, "message": message}
    if where.channel == "mail" and channels.smtp is not None:
        order |= {"smtp": asdict(channels.smtp), "from": channels.mail_from}
        if PASSWORD_VARIABLE in os.environ:
            environment[PASSWORD_VARIABLE] = os.environ[PASSWORD_VARIABLE]
    elif where.channel == "named-webhook":
        order["file"] = str((channels.webhooks or Path("/nowhere")) / where.to)
    return [sys.executable, "-c", _BOOT], order, environment
