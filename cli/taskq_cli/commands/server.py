"""`taskq up`, `down` and `completion`: the embedded servers, and completion in shells."""

from __future__ import annotations

from pathlib import Path

import click
from click.shell_completion import get_completion_class

import taskq
from taskq.embedded import RedisServer, Server
from taskq.model.errors import UsageError
from taskq.model.words import command
from taskq_agent.inputs import default_cache
from taskq_agent.paths import exists, is_dir
from taskq_agent.units import in_bytes
from taskq_cli.display.output import as_record, facts, write_record
from taskq_cli.early_exits import confirm
from taskq_cli.invocation import Invocation, start_server
from taskq_cli.options.shared import dry_run_option, shared_options, yes_option

_VARIABLE = "_TASKQ_COMPLETE"


@click.command()
@click.option(
    "--port",
    type=int,
    metavar="PORT",
    help="Also listen at this port of 127.0.0.1, 1024 to 32767, until the next start.",
)
@click.option(
    "--with-redis",
    is_flag=True,
    help="Also start a Redis for the front, for --redis of keeper and gateway.",
)
@shared_options
def up(invocation: Invocation, *, port: int | None, with_redis: bool) -> None:
    """Start the embedded PostgreSQL and show its address.

    It runs until `taskq down`, even if you close the terminal. Other commands start PostgreSQL when
    they need it, but never Redis.

    Example:
      taskq up --with-redis
    """
    _embedded_only(invocation, "up")
    info = start_server(port)
    if invocation.address() is None:
        taskq.connect().close()  # set up the schema: a failure shows here
    else:
        click.echo(
            "TASKQ_DSN or TASKQ_URL is set, so other commands use that server, not this one.",
            err=True,
        )
    redis = RedisServer().up() if with_redis else RedisServer().status()
    record = as_record(info) | {"redis": None if redis is None else redis.url}
    shown = {
        "server": f"PostgreSQL {info.version_text}, pid {info.pid}",
        "programs": info.bin_dir,
        "data": info.data_dir,
        "log": info.log_file,
        "dsn": info.dsn,
    }
    if redis is not None:
        shown |= {
            "redis": f"{redis.version_text}, pid {redis.pid}",
            "redis log": redis.log_file,
            "redis url": redis.url,
        }
    advice = [] if redis is None else _advice(redis.url)
    write_record(invocation.output, record, "\n".join([facts(shown), *info.notes, *advice]))


def _advice(url: str) -> list[str]:
    """Return how to use a Redis that runs: alone it changes nothing."""
    return [
        "Commands use Redis if --redis or TASKQ_REDIS names it. One of these must run, to fill it:",
        *(f"  {command(name, '--redis', url)}" for name in ("keeper", "gateway")),
        f"`{command('front', 'status', '--redis', url)}` shows whether it is filled.",
    ]


@click.command()
@click.option(
    "--immediate", is_flag=True, help="Skip the final checkpoint; the next start recovers."
)
@click.option(
    "--delete-data",
    is_flag=True,
    help="Also delete all data for good: campaigns, results, logs.",
)
@dry_run_option
@yes_option
@shared_options
def down(
    invocation: Invocation, *, immediate: bool, delete_data: bool, dry_run: bool, yes: bool
) -> None:
    """Stop the embedded PostgreSQL, and Redis if that runs; all data stay.

    --delete-data leaves the inputs that agents have cached on this machine, since agents of other
    queues use them too; it says where they are.

    Examples:
      taskq down
      taskq down --delete-data
    """
    _embedded_only(invocation, "down")
    if delete_data:
        _delete(invocation, dry_run=dry_run, yes=yes)
        return
    if dry_run:
        raise UsageError("--dry-run needs --delete-data; `taskq down` alone deletes nothing")
    redis_stopped = RedisServer().down()
    stopped = Server().down(immediate=immediate)
    text = "The server has stopped." if stopped else "The server was not running."
    if redis_stopped:
        text = f"Redis has stopped.\n{text}"
    write_record(invocation.output, {"stopped": stopped, "redis_stopped": redis_stopped}, text)


def _delete(invocation: Invocation, *, dry_run: bool, yes: bool) -> None:
    server, cache = Server(), default_cache()
    there = server.home.stored()
    record = {"deleted": [str(path) for path in there], "dry_run": dry_run}
    if exists(cache):
        click.echo(
            f"{cache} ({in_bytes(_size(cache))}) stays: agents of all queues of this user share "
            "the inputs there, and bound their size (`taskq agent run --cache-size`).",
            err=True,
        )
    if dry_run:
        lines = [f"Would be deleted: {path} ({in_bytes(_size(path))})" for path in there]
        text = "\n".join([*lines, "Nothing was changed."])
        write_record(invocation.output, record, text)
        return
    if there:
        size = in_bytes(sum(map(_size, there)))
        confirm(f"Delete {server.home.path} and all that belongs to it ({size}) for good?", yes=yes)
        RedisServer().down()
        server.delete()
    text = "\n".join(f"Deleted: {path}" for path in there) or "There are no data."
    write_record(invocation.output, record, text)


def _size(path: Path) -> int:
    """Return the bytes that a file or folder takes."""
    files = [path, *path.rglob("*")] if is_dir(path) else [path]
    return sum(file.lstat().st_blocks * 512 for file in files)


def _embedded_only(invocation: Invocation, name: str) -> None:
    for option, given in (("--dsn", invocation.dsn), ("--url", invocation.url)):
        if given is not None:
            raise UsageError(f"`taskq {name}` is for the embedded server only; leave {option} out")


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
