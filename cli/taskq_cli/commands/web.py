"""`taskq web`: serve pages about the queue."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from taskq.api.reader import anonymous
from taskq.model.errors import ExtraMissing, UsageError
from taskq_cli.log import log_to_stderr
from taskq_cli.shared import Invocation, reading_options

_FILE: Final = click.Path(dir_okay=False, path_type=Path)
_MOST_PORT: Final = 65_535


@click.command()
@click.option(
    "--listen",
    default="127.0.0.1:8078",
    show_default=True,
    metavar="ADDRESS:PORT",
    help="Where to listen; port 0: any free one, which is written to standard output.",
)
@click.option(
    "--require-token",
    is_flag=True,
    help="Ask for managers' tokens in place of the address's secret. Needed beyond this machine.",
)
@click.option("--tls-cert", type=_FILE, metavar="FILE", help="Certificate and chain, in PEM.")
@click.option("--tls-key", type=_FILE, metavar="FILE", help="Its key.")
@click.option(
    "--plain",
    is_flag=True,
    help="Serve without TLS to other machines: tokens can be read in transit.",
)
@reading_options
def web(
    invocation: Invocation,
    *,
    listen: str,
    require_token: bool,
    tls_cert: Path | None,
    tls_key: Path | None,
    plain: bool,
) -> None:
    """Serve pages that show campaigns, hosts, agents and tasks.

    The pages say what `status`, `explain`, `failures`, `hosts`, `agents` and `history` say, and
    change nothing. They are for who opens the address that is printed, which has a secret; with
    --require-token, for who signs in with a token of `taskq token create --manager`, which
    also limits the campaigns that are shown.

    Examples:
      taskq web
      taskq web --listen 0.0.0.0:8078 --require-token --tls-cert chain.pem --tls-key key.pem
    """
    try:
        from taskq.web import server  # noqa: PLC0415  # the extra may be missing
        from taskq.web.access import is_loopback  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise ExtraMissing(f"the pages need {error.name}", "web") from None
    host, port = _address(listen)
    if (tls_cert is None) != (tls_key is None):
        raise UsageError("--tls-cert and --tls-key belong together")
    if not is_loopback(host):
        if not require_token:
            raise UsageError(
                f"at {host} everybody who can reach this machine could look; say --require-token, "
                "so that only those with a manager's token can, or listen at 127.0.0.1"
            )
        if tls_cert is None and not plain:
            raise UsageError(
                f"at {host} tokens would be sent in the clear; give --tls-cert and --tls-key, "
                "listen at 127.0.0.1 behind a proxy that ends TLS, or say --plain"
            )
    log_to_stderr(verbose=False, quiet=True)
    with invocation.reader() as known, anonymous(known) as client:
        site = server.Site(host, port, require_token, tls_cert, tls_key)
        server.serve(client, site, click.echo)


def _address(listen: str) -> tuple[str, int]:
    """Return host and port; raise `UsageError`."""
    host, colon, port = listen.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > _MOST_PORT:
        raise UsageError(f"--listen {listen!r}: give an address and a port, as 127.0.0.1:8078")
    return host.removeprefix("[").removesuffix("]"), int(port)
