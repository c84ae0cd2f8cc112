"""Command lines that somebody types, read as `taskq` reads them; nothing is run."""

from __future__ import annotations

import shlex

import click

from taskq_cli.main import main
from taskq_cli.program import ListGroup


def parse(line: str) -> None:
    """Let a command line be read, names of options and forms of values included; run nothing."""
    program, *words = shlex.split(line)
    assert program == "taskq"
    group: click.Group = main
    context = click.Context(main, info_name="taskq", **main.context_settings)
    while True:
        name, *words = words
        command = group.get_command(context, name)
        assert command is not None, line
        if not isinstance(command, click.Group):
            break
        if isinstance(command, ListGroup) and words[:1] and words[0] not in command.commands:
            words = ["list", *words]
        group, context = command, click.Context(command, parent=context, info_name=name)
    command.make_context(name, words, parent=context)
