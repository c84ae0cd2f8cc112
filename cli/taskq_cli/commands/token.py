"""`taskq token`: create, list and revoke the tokens of sites and managers."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TextIO, get_args

import click

from taskq.db.tokens import DAYS, Kind, Token
from taskq.diagnosis.tables.tokens import TOKENS
from taskq.model.errors import Conflict, NotFound, UsageError
from taskq.model.version import VERSION
from taskq.model.words import DAY_S, command, counted, instant
from taskq.pilots.agent_file import checksum_line
from taskq_cli.display.output import as_record, write_record, write_records
from taskq_cli.invocation import Invocation
from taskq_cli.options.shared import campaign_option, dry_run_option, shared_options
from taskq_cli.options.values import size, time_option

_MOST_USES: Final = 1_000_000_000


@click.group()
def token() -> None:
    """Create, list and revoke tokens for gateways.

    Example:
      taskq token list
    """


@token.command()
@click.argument("name")
@click.option(
    "--kind",
    type=click.Choice(get_args(Kind)),
    required=True,
    help="For whom: the agents of a site; managers, who watch, steer and seed campaigns; "
    "submitters, who also create and change them; picklers, who also send functions by value.",
)
@campaign_option(
    "paths",
    multiple=True,
    required=True,
    help="A campaign that the token covers, with all below it. May be repeated.",
)
@time_option(
    "--expires-in",
    "expires_s",
    least=1,
    most=3_650 * DAY_S,
    default=DAYS * DAY_S,
    text="Time until the token expires. Open sessions go on.",
)
@click.option(
    "--uses",
    "max_uses",
    type=click.IntRange(1, _MOST_USES),
    metavar="N",
    help="Sessions that the token can open. [default: any number]",
)
@click.option(
    "--network",
    "networks",
    multiple=True,
    metavar="CIDR",
    help="Network of the agents, such as 192.0.2.0/24. May be repeated. [default: anywhere]",
)
@click.option(
    "--site",
    "at_site",
    metavar="SITE",
    help="Site of the agents, for bans and limits. [default: the agents' --site, else NAME]",
)
@click.option(
    "--max-output-bytes",
    type=size,
    metavar="SIZE",
    help="Limit of the output files that its agents store. [default: 100G]",
)
@click.option(
    "--to",
    type=click.Path(path_type=Path),
    metavar="DEST",
    help="Write the token to a new file that only its owner can read, not to standard output.",
)
@shared_options
def create(
    invocation: Invocation,
    *,
    name: str,
    kind: Kind,
    paths: tuple[str, ...],
    expires_s: float,
    to: Path | None,
    **limits: Any,
) -> None:
    """Create a token, and print it once.

    Nobody can show it again: the database stores only a hash. `list` and `revoke` use NAME.

    Example:
      taskq token create cluster-b --kind site --campaign /demo --expires-in 7d --to cluster-b.token
    """
    with invocation.client() as client, _new_file(to) as file:
        for path in paths:
            client.campaign(path)  # raises an error that proposes a similar path
        try:
            text, made = client.tokens.create(kind, name, paths, days=expires_s / DAY_S, **limits)
        except Conflict:
            raise Conflict(_rotation(client.tokens.list(), name)) from None
        if file is not None:
            file.write(f"{text}\n")
    record = as_record(made)
    if to is None:
        click.echo(f"The token {name} is valid until {instant(made.expires_at)}.", err=True)
        write_record(invocation.output, record | {"token": text}, text)
    else:
        message = f"The token {name} is in {to}; it is valid until {instant(made.expires_at)}."
        write_record(invocation.output, record | {"file": to}, message)
    if kind == "site":
        click.echo(
            f"A node checks the agent file of this release ({VERSION}) before it runs it:\n"
            f"  echo '{checksum_line()}' | sha256sum --check",
            err=True,
        )


def _rotation(tokens: Sequence[Token], name: str) -> str:
    """Return how to replace a token whose name is taken."""
    taken = {known.name for known in tokens if known.state != "revoked"}
    old = next(known for known in tokens if known.name == name and known.state != "revoked")
    revoke = command("token", "revoke", name)
    if old.state != "valid":
        return f"there is a token {name}, which is {old.state}: `{revoke}`, then create it again"
    free = next(f"{name}-{n}" for n in itertools.count(2) if f"{name}-{n}" not in taken)
    words = ["--kind", old.kind, *(["--site", old.at_site or name] * (old.kind == "site"))]
    words += [word for path in old.paths for word in ("--campaign", path)]
    create = command("token", "create", *words, "--to", f"{free}.token", names=[free])
    return (
        f"there is a token {name}; to replace it: `{create}`, give that to its users, then "
        f"`{revoke}`, which ends its sessions"
    )


@token.command("list")
@shared_options
def list_(invocation: Invocation) -> None:
    """List the tokens, newest first, without their secrets.

    Example:
      taskq token list
    """
    with invocation.client() as client:
        found = client.tokens.list()
    write_records(invocation.output, found, TOKENS)


@token.command()
@click.argument("name")
@dry_run_option
@shared_options
def revoke(invocation: Invocation, *, name: str, dry_run: bool) -> None:
    """Revoke a token at once, and end the sessions it has opened.

    Other agents get the tasks of these sessions; later reports on them do not count.

    Example:
      taskq token revoke cluster-b
    """
    with invocation.client() as client:
        if dry_run:
            valid = (known for known in client.tokens.list() if known.state != "revoked")
            found = [known for known in valid if known.name == name]
            if not found:
                raise NotFound(f"no token {name}; `taskq token list` shows all")
            sessions = counted(found[0].sessions, "session")
            would = f"The token {name} would be revoked, with {sessions}; nothing was changed."
            write_record(invocation.output, as_record(found[0], dry_run=True), would)
            return
        revoked = client.tokens.revoke(name)
    text = (
        f"The token {name} is revoked; {counted(revoked.sessions, 'session')} ended, "
        f"{counted(revoked.attempts, 'attempt')} handed back."
    )
    write_record(invocation.output, as_record(revoked, name=name), text)


@contextmanager
def _new_file(path: Path | None) -> Iterator[TextIO | None]:
    """Create a file that only its owner can read; remove it if the block fails; None for None.

    The file exists before the token does, so that no token is created that cannot be stored.
    """
    if path is None:
        yield None
        return
    try:
        # No symbolic link and no existing file: another user might be able to read that.
        file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w")
    except FileExistsError:
        raise Conflict(f"{path} exists; give the name of a new file") from None
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise
