"""Options that name tasks by their keys: on the command line, or in a file."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Final

import click

from taskq.model.errors import UsageError
from taskq_cli.options.shared import together

MAX_KEYS_BYTES: Final = 64 << 20

keys_options: Final = together(
    click.option(
        "--key",
        "keys",
        multiple=True,
        metavar="KEY",
        help="Only this task of CAMPAIGN itself. May be repeated.",
    ),
    click.option(
        "--keys",
        "key_file",
        metavar="FILE",
        help="Only tasks of CAMPAIGN itself with the keys in this file, one a line. -: standard "
        "input.",
    ),
)


def named_keys(keys: tuple[str, ...], file: str | None) -> tuple[str, ...]:
    """Return the keys of both options; raise `UsageError` if the file has none.

    Empty lines are left out. No key may not mean all tasks: the file may come from a command that
    found none.
    """
    if file is None:
        return keys
    try:
        with nullcontext(sys.stdin.buffer) if file == "-" else Path(file).open("rb") as stream:
            data = stream.read(MAX_KEYS_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{file!r} cannot be read: {error.strerror}") from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{file!r} is not UTF-8 in line {line:,}: write it as UTF-8") from None
    if len(data) > MAX_KEYS_BYTES:
        raise UsageError(f"{file!r} has more than {MAX_KEYS_BYTES:,} bytes: split it")
    found = [key for line in text.split("\n") if (key := line.removesuffix("\r"))]
    if not found:
        raise UsageError(f"{file!r} has no key, one a line; nothing was changed")
    return keys + tuple(found)
