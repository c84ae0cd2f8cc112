"""`taskq completion`: print scripts for shell completion."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from taskq.model.errors import UsageError

_VARIABLE = "_TASKQ_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a script for completion in a shell.

    The script completes commands, options and paths of campaigns.

    Example:
      eval "$(taskq completion bash)"
      taskq completion fish > ~/.config/fish/completions/taskq.fish
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise UsageError(f"there is no completion for {shell}")
    program = context.find_root().command
    click.echo(kind(program, {}, "taskq", _VARIABLE).source())
