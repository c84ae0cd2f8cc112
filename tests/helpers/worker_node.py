"""A worker node: the agent as one file, run by a given interpreter."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from taskq.pilots.agent_file import build
from tests.helpers.leftovers import VARIABLE
from tests.helpers.memory_gateway import TOKEN

#: For whole campaigns of some hundred tasks.
TIMEOUT_S = 200.0

_WITHHELD = ("TASKQ_", "PYTHON", "http_proxy", "https_proxy", "all_proxy", "no_proxy")


class WorkerNode:
    """A folder with the agent and a token; nothing of this project is on the Python path."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.agent = folder / "taskq-agent.pyz"
        self.agent.write_bytes(build())
        self.token = folder / "token"
        self.token.touch(mode=0o600)
        self.token.write_text(TOKEN + "\n")
        self.environment = {
            name: value
            for name, value in os.environ.items()
            if name == VARIABLE
            or not name.lower().startswith(tuple(prefix.lower() for prefix in _WITHHELD))
        }

    @contextmanager
    def started(
        self, *words: object, python: str = sys.executable, **environment: str
    ) -> Iterator[subprocess.Popen[str]]:
        """Start the agent with this command; kill it at the end of the block if it still runs."""
        with subprocess.Popen(
            [python, str(self.agent), *map(str, words)],
            cwd=self.folder,
            env={**self.environment, **environment},
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    @contextmanager
    def at_work(
        self, *urls: str, python: str = sys.executable, **options: Any
    ) -> Iterator[subprocess.Popen[str]]:
        """Start `run` with these gateways and options; True stands for a flag."""
        words: list[object] = ["run", "--token-file", self.token]
        for url in urls:
            words += ["--gateway", url]
        for name, value in options.items():
            flag = "--" + name.replace("_", "-")
            words += [flag] if value is True else [flag, value]
        with self.started(*words, python=python) as process:
            yield process

    def run(self, *urls: str, python: str = sys.executable, **options: Any) -> AgentResult:
        """Run an agent until it ends."""
        with self.at_work(*urls, python=python, **options) as process:
            return AgentResult(process)


class AgentResult:
    """The end of an agent. summary: what it has printed, if it got so far."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.out, self.err = process.communicate(timeout=TIMEOUT_S)
        self.code = process.returncode
        self.summary: Mapping[str, Any] = json.loads(self.out) if self.out else {}
