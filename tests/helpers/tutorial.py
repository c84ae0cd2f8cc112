"""Runs the blocks of a page of the manual as they are printed, in order.

A block with a title is a file. A block of the language `console` is a session of one shell that the
page keeps: each line that begins with `$` is a command, and what follows is its output, in which
`...` stands for any text. Blocks of `sh` are not run; the test of the page says what replaces them.
"""

from __future__ import annotations

import doctest
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple

from typing_extensions import Self

from taskq.embedded import Server
from tests.fixtures.servers import make_home
from tests.helpers.command_line import NOTHING

TUTORIALS: Final = Path(__file__, "../../../docs/tutorials").resolve()
_BLOCK: Final = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```', re.MULTILINE | re.DOTALL)
_COMMAND: Final = re.compile(r"^\$ ((?:.*\\\n)*.*)\n", re.MULTILINE)
_FLAGS: Final = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class File(NamedTuple):
    """A file that the reader writes."""

    name: str
    text: str


class Command(NamedTuple):
    """A command that the reader types, and what the page says it prints."""

    line: str
    output: str


def section_of(page: Path, heading: str) -> str:
    """Return the text of a page below a heading of the second level, up to the next one."""
    _, found, rest = page.read_text(encoding="utf-8").partition(f"\n## {heading}\n")
    assert found, f"{page.name} has no heading {heading}"
    return rest.partition("\n## ")[0]


def steps(text: str) -> Iterator[File | Command]:
    """Yield what a page has its reader do."""
    for language, title, content in _BLOCK.findall(text):
        if title and language != "sh":
            yield File(title, content)
        elif language == "console":
            _, *parts = _COMMAND.split(content)
            for line, output in zip(parts[::2], parts[1::2], strict=True):
                yield Command(line, output)


class Shell:
    """A reader's shell, in a folder of their own."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.folder = folder
        self._bash = subprocess.Popen(
            ["bash", "--norc", "-o", "pipefail"],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._bash.stdin is not None
        self._bash.stdin.close()
        self._bash.wait()
        assert self._bash.stdout is not None
        self._bash.stdout.close()

    def run(self, command: str) -> str:
        """Run a command to its end; return what it printed."""
        assert self._bash.stdin is not None
        assert self._bash.stdout is not None
        self._bash.stdin.write(f"{command}\nprintf '\\n%s\\n' end-of-command\n")
        self._bash.stdin.flush()
        lines = iter(self._bash.stdout.readline, "")
        printed = []
        for line in lines:
            if line == "end-of-command\n":
                return "".join(printed).removesuffix("\n")
            printed.append(line)
        raise AssertionError(f"the shell ended with `{command}`: {''.join(printed)}")

    def follow(
        self, page: Path, names: Mapping[str, str] = NOTHING, *, heading: str | None = None
    ) -> int:
        """Do all that a page says, or its part below a heading; return how many commands that has.

        names: what stands for names of hosts on the page. Raise AssertionError for a command that
        prints other than the page says.
        """

        def here(text: str) -> str:
            for name, own in names.items():
                text = text.replace(name, own)
            return text

        commands = 0
        text = page.read_text(encoding="utf-8") if heading is None else section_of(page, heading)
        for step in steps(text):
            if isinstance(step, File):
                (self.folder / step.name).write_text(here(step.text), encoding="utf-8")
                continue
            commands += 1
            printed = self.run(here(step.line))
            wanted = here(step.output)
            if not doctest.OutputChecker().check_output(wanted, f"{printed}\n", _FLAGS):
                raise AssertionError(f"$ {step.line}\n{printed}\n--- but the page says\n{wanted}")
        return commands


@contextmanager
def readers_shell(folder: Path, environment: Mapping[str, str] = NOTHING) -> Iterator[Shell]:
    """Give a shell where taskq is installed and no server runs; stop what it has started.

    environment: further variables; its PATH comes after the programs of this Python.
    """
    home = make_home()
    kept = {name: os.environ[name] for name in ("TASKQ_RUN_AS", "LANG") if name in os.environ}
    path = environment.get("PATH", os.environ["PATH"])
    paths = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{path}", "HOME": str(folder)}
    with Shell(folder, {**kept, **environment, **paths, "TASKQ_HOME": str(home)}) as shell:
        yield shell
    Server(home).down(immediate=True)
    shutil.rmtree(home)
