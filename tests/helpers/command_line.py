"""Runner of the command `taskq` against a test's database, in process or as a process."""

from __future__ import annotations

import codecs
import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from click import Command
from click.testing import CliRunner, Result

from taskq_cli.main import main
from tests.helpers.waiting import PATIENCE_S, wait_until

PROGRAM = Path(sys.executable).with_name("taskq")
TIMEOUT_S = PATIENCE_S
NOTHING: Mapping[str, str] = MappingProxyType({})


class CommandLine:
    """Runs commands on the queue at `dsn`."""

    def __init__(
        self, dsn: str, program: Command = main, *, address: Mapping[str, str] | None = None
    ) -> None:
        """program: run by all calls but `process` and `terminal`, which run `taskq`.

        address: variables that say where the queue is; by default `TASKQ_DSN`.
        """
        self.dsn = dsn
        self.program = program
        self._address = {"TASKQ_DSN": dsn} if address is None else dict(address)
        self.environment = os.environ | self._address | {"TERM": "xterm"}
        self.environment.pop("COLUMNS", None)

    def __call__(self, *words: object, input: str | bytes | None = None) -> Result:  # noqa: A002  # click's name
        """Run a command in this process; unexpected exceptions are raised."""
        on_ctrl_c = signal.getsignal(signal.SIGINT)
        result = CliRunner().invoke(
            self.program,
            [str(word) for word in words],
            input=input,
            env={**self._address, "COLUMNS": None},
        )
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert signal.getsignal(signal.SIGINT) is on_ctrl_c
        return result

    def out(self, *words: object, input: str | bytes | None = None) -> str:  # noqa: A002  # click's name
        """Return the standard output of a command that must succeed."""
        result = self(*words, input=input)
        assert result.exit_code == 0, result.stderr
        return result.stdout

    def json(self, *words: object) -> Any:
        """Return the JSON output of a command that must succeed."""
        return json.loads(self.out(*words, "--output", "json"))

    def refused(self, *words: object, input: str | bytes | None = None) -> tuple[int, str]:  # noqa: A002  # click's name
        """Return exit code and error of a command that must fail in one line, without output."""
        result = self(*words, input=input)
        assert result.exit_code != 0, result.stdout
        assert result.stdout == ""
        assert result.stderr.count("\n") == 1, result.stderr
        return result.exit_code, result.stderr.removeprefix("Error: ").strip()

    @contextmanager
    def process(
        self, *words: object, environment: Mapping[str, str] = NOTHING, **options: Any
    ) -> Iterator[subprocess.Popen[str]]:
        """Start a command; kill it at the end of the block if it still runs."""
        started = subprocess.Popen(
            [str(PROGRAM), *map(str, words)],
            text=True,
            **{
                "env": {**self.environment, **environment},
                "stdout": subprocess.PIPE,
                "stderr": subprocess.PIPE,
                **options,
            },
        )
        with started:
            try:
                yield started
            finally:
                started.kill()

    @contextmanager
    def terminal(
        self, *words: object, columns: int = 100, environment: Mapping[str, str] = NOTHING
    ) -> Iterator[Terminal]:
        """Start a command on a pseudo-terminal."""
        terminal = Terminal()
        terminal.resize(columns)
        ends = {"stdin": terminal.far, "stdout": terminal.far, "stderr": terminal.far}
        with self.process(
            *words, environment=environment, start_new_session=True, **ends
        ) as started:
            terminal.process = started
            try:
                yield terminal
            finally:
                terminal.close()


class Terminal:
    """A pseudo-terminal, from the point of view of its user."""

    process: subprocess.Popen[str]

    def __init__(self) -> None:
        self._near, self.far = pty.openpty()
        self._text = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self.seen = ""

    def resize(self, columns: int) -> None:
        """Set its width."""
        fcntl.ioctl(self.far, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    def type(self, keys: str) -> None:
        """Type some keys."""
        os.write(self._near, keys.encode())

    def wait_for(self, text: str) -> None:
        """Wait until a text has appeared; `seen` is all output so far."""
        wait_until(lambda: text in self._look(), timeout_s=TIMEOUT_S, on_timeout=lambda: self.seen)

    def end(self) -> int:
        """Wait for the end of the process; return its exit code."""
        wait_until(
            lambda: self._look() and self.process.poll() is not None,
            timeout_s=TIMEOUT_S,
            on_timeout=lambda: self.seen,
        )
        self._look()
        return self.process.wait()

    def close(self) -> None:
        """Close both ends."""
        os.close(self._near)
        os.close(self.far)

    def _look(self) -> str:
        while select.select([self._near], [], [], 0)[0]:
            self.seen += self._text.decode(os.read(self._near, 65_536))
        return self.seen
