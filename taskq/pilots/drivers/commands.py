"""Programs of batch systems: run by argument lists, with a time limit; errors quote them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from typing import Final

from taskq.model.errors import Unavailable

TIMEOUT_S: Final = 60.0
MAX_WORDS_CHARS: Final = 1_000
_MAX_OUTPUT: Final = 16 * 1_048_576


class BatchSystemError(Unavailable):
    """A refusal of the batch system, in its own words, or an answer that makes no sense."""


def missing_program(environment: Mapping[str, str], *names: str) -> str | None:
    """Return a message about the first program that is not on PATH; None if all are."""
    for name in names:
        if shutil.which(name, path=environment.get("PATH")) is None:
            return f"{name} is not on PATH here: run the loop where it is, such as on a login node"
    return None


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment for programs, without the loop's own settings."""
    return {name: value for name, value in environment.items() if not name.startswith("TASKQ_")}


def run(
    argv: Sequence[str],
    *,
    environment: Mapping[str, str],
    text: str = "",
    what: str = "",
    timeout_s: float = TIMEOUT_S,
) -> str:
    """Run a program and return its standard output; raise `BatchSystemError` if it fails.

    text: its standard input. what: names it in messages; by default the program.
    """
    what = what or argv[0]
    try:
        done = subprocess.run(
            argv,
            input=text.encode(),
            capture_output=True,
            env={**environment, "LC_ALL": "C"},
            timeout=timeout_s,
            check=False,
            start_new_session=True,  # Ctrl-C is for the loop
        )
    except subprocess.TimeoutExpired:
        raise BatchSystemError(f"{what} did not answer within {timeout_s:g} s") from None
    except (OSError, ValueError) as error:
        raise BatchSystemError(f"{what} cannot be run: {error}") from None
    if done.returncode != 0:
        said = _words(done.stderr) or _words(done.stdout) or "it said nothing"
        raise BatchSystemError(f"{what} failed with code {done.returncode}: {said}")
    return done.stdout[:_MAX_OUTPUT].decode("utf-8", "replace")


def _words(output: bytes) -> str:
    """Return a program's output as one line that a database can store."""
    text = output[-4 * MAX_WORDS_CHARS :].decode("utf-8", "replace").replace("\0", "?")
    return " ".join(text.split())[:MAX_WORDS_CHARS]
