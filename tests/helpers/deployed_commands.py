"""Commands as files for other programs have them: parsed by taskq, and not run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from taskq_agent.main import _parser
from taskq_cli.main import main


def taskq_options(words: Sequence[str]) -> dict[str, Any]:
    """Return what `taskq WORDS` is given; raise `click.UsageError` for what it does not take."""
    context = click.Context(main, info_name="taskq", **main.context_settings)
    name, command, rest = main.resolve_command(context, [*words])
    while isinstance(command, click.Group):
        context = click.Context(command, parent=context, info_name=name)
        name, command, rest = command.resolve_command(context, rest)
    assert command is not None
    return command.make_context(name, rest, parent=context).params


def agent_options(words: Sequence[str]) -> dict[str, Any]:
    """Return what `taskq-agent WORDS` is given; exit for what it does not take."""
    return vars(_parser().parse_args([*words]))
