"""`taskq gateway` and `taskq web`: serve the queue to agents, and its pages to people."""

from __future__ import annotations

import importlib.util
import ipaddress
import logging
import resource
from pathlib import Path
from typing import Final

import click

from taskq import Client
from taskq.api.connecting import anonymous
from taskq.front.address import FrontAddress
from taskq.model.errors import ExtraMissing, UsageError
from taskq_agent.http.gateways import is_loopback, parsed
from taskq_cli.invocation import Invocation, needs
from taskq_cli.last_words import noted
from taskq_cli.options.serving import (
    check_tls,
    front_option,
    lease_option,
    listen_option,
    log_to_stderr,
    tls_options,
    verbosity_options,
)
from taskq_cli.options.shared import blobs_option, connection_options, reading_options
from taskq_cli.options.values import time_option

LEAST_LEASE_S: Final = 2.0
#: File descriptors that connections of clients leave for everything else.
FILES_FOR_OTHERS: Final = 100


@click.command()
@listen_option("127.0.0.1:8443")
@click.option(
    "--share-port",
    is_flag=True,
    help="Share the port with other gateways on this machine (SO_REUSEPORT).",
)
@tls_options
@click.option(
    "--proxy",
    "proxies",
    multiple=True,
    metavar="ADDRESS",
    help="Trusted proxy that ends TLS and sends X-Forwarded-For. May be repeated.",
)
@click.option(
    "--gateway",
    "gateways",
    multiple=True,
    metavar="URL",
    help="URL of a gateway to announce to agents; include this one. May be repeated.",
)
@click.option(
    "--lines",
    type=click.IntRange(1, 64),
    default=3,
    show_default=True,
    metavar="N",
    help="Connections to the database for exchanges.",
)
@lease_option(LEAST_LEASE_S)
@time_option(
    "--drain",
    "drain_s",
    most=3_600,
    default=10.0,
    text="How long to answer agents and send them to other gateways after SIGTERM.",
)
@blobs_option
@front_option
@click.option(
    "--no-keeper", is_flag=True, help="Leave upkeep, and filling the lists in Redis, to others."
)
@click.option(
    "--pages",
    is_flag=True,
    help="Also serve the pages of `taskq web` to those with a manager's token.",
)
@click.option("--log-json", is_flag=True, help="Write the log as JSON Lines.")
@verbosity_options
@connection_options
def gateway(
    invocation: Invocation,
    *,
    listen: tuple[str, int],
    share_port: bool,
    tls_cert: Path | None,
    tls_key: Path | None,
    proxies: tuple[str, ...],
    plain: bool,
    gateways: tuple[str, ...],
    lines: int,
    lease_s: float,
    drain_s: float,
    blobs: str | None,
    front: FrontAddress | None,
    no_keeper: bool,
    pages: bool,
    log_json: bool,
    verbose: bool,
    quiet: bool,
) -> None:
    """Serve agents over HTTP.

    Agents need a token (`taskq token create`) and the agent's file, which the gateway serves at
    /taskq-agent.pyz. Any number of gateways may serve one queue; they keep no state.

    On SIGTERM or Ctrl-C the gateway hands out no more tasks, sends agents to other gateways for a
    while, answers open requests, and exits with code 0. A second signal ends it at once. SIGKILL
    loses no task.

    Example:
      taskq gateway --listen 0.0.0.0:8443 --tls-cert chain.pem --tls-key key.pem
      taskq gateway --listen 127.0.0.1:8080 --proxy 127.0.0.1
    """
    with needs("the gateway needs", "gateway"):
        from taskq.files.blobs import open_blobs  # noqa: PLC0415  # the extra may be missing
        from taskq.gateway import server  # noqa: PLC0415
        from taskq.gateway.http.certificates import ServerCertificate  # noqa: PLC0415
        from taskq.gateway.http.listening import Listening  # noqa: PLC0415
        from taskq.gateway.settings import Settings  # noqa: PLC0415
    if pages and importlib.util.find_spec("jinja2") is None:
        raise ExtraMissing("the pages need jinja2", "web")
    check_tls(listen[0], tls_cert, tls_key, plain=plain, agents=True)
    _check(gateways, proxies)
    log_to_stderr(verbose=verbose, quiet=quiet, as_json=log_json)
    most_clients = resource.getrlimit(resource.RLIMIT_NOFILE)[0] - FILES_FOR_OTHERS
    with (
        invocation.client(waits=True, keeps=False) as known,
        noted(known.queries, f"{listen[0]}:{listen[1]}"),
        Client(known.database.anonymous()) as client,
    ):
        certificate = ServerCertificate(tls_cert, tls_key) if tls_cert and tls_key else None
        serving = server.Gateway(
            client,
            open_blobs(client.database, blobs),
            Settings(lease_s, gateways, lines, most_clients, front),
            Listening(*listen, share_port, certificate, proxies),
            server.Duties(drain_s, None if no_keeper else known.database),
            pages,
        )
        serving.run(click.echo)


def _check(gateways: tuple[str, ...], proxies: tuple[str, ...]) -> None:
    """Raise `UsageError` for a URL or an address that agents or the server could not use."""
    try:
        for url in gateways:
            parsed(url, insecure=True)
        for proxy in proxies:
            ipaddress.ip_network(proxy)
    except ValueError as error:
        raise UsageError(f"--gateway or --proxy: {error}") from None


@click.command()
@listen_option("127.0.0.1:8078")
@click.option(
    "--require-token",
    is_flag=True,
    help="Ask for managers' tokens instead of the secret in the address. Needed if other machines "
    "can connect.",
)
@tls_options
@reading_options
def web(
    invocation: Invocation,
    *,
    listen: tuple[str, int],
    require_token: bool,
    tls_cert: Path | None,
    tls_key: Path | None,
    plain: bool,
) -> None:
    """Serve pages that show campaigns, hosts, agents and tasks.

    The pages show what `status`, `explain`, `failures`, `host list`, `agent list` and `history`
    show. The command prints their address, which holds a secret. With --require-token, people sign
    in with a token of `taskq token create --kind manager`; it limits the campaigns that they see.

    The pages change nothing, unless viewers need tokens and the login has the role `manager`: then
    viewers can also pause, resume, cancel, retry and prioritise what their tokens allow, and
    acknowledge troubles.

    Examples:
      taskq web
      taskq web --listen 0.0.0.0:8078 --require-token --tls-cert chain.pem --tls-key key.pem
    """
    with needs("the pages need", "web"):
        from taskq.gateway.http.certificates import ServerCertificate  # noqa: PLC0415
        from taskq.gateway.http.listening import Listening  # noqa: PLC0415
        from taskq.gateway.web.server import serve  # noqa: PLC0415  # the extra may be missing
    host = listen[0]
    if not require_token and not is_loopback(host):
        raise UsageError(
            f"at {host} everybody who can reach this machine could read the pages; give "
            "--require-token, so that only those with a manager's token can, or listen at 127.0.0.1"
        )
    check_tls(host, tls_cert, tls_key, plain=plain, agents=False)
    log_to_stderr(verbose=False, quiet=True)
    logging.getLogger("taskq.pages").setLevel(logging.INFO)
    with invocation.reader(waits=True) as known, anonymous(known) as client:
        certificate = ServerCertificate(tls_cert, tls_key) if tls_cert and tls_key else None
        listening = Listening(*listen, certificate=certificate)
        serve(client, listening, click.echo, tokens=require_token)
