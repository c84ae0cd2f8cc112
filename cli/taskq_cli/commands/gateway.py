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
from taskq.api.reader import anonymous
from taskq.front.address import FrontAddress
from taskq.model.errors import ExtraMissing, UsageError
from taskq_agent.http.gateways import parsed
from taskq_cli.invocation import Invocation, needs
from taskq_cli.options.serving import (
    check_tls,
    front_option,
    is_loopback,
    lease_option,
    log_json_to_stderr,
    log_to_stderr,
    tls_options,
    verbosity_options,
)
from taskq_cli.options.shared import blobs_option, dsn_option, reading_options, time_option

LEAST_LEASE_S: Final = 2.0
FILES_FOR_OTHERS: Final = 100


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at.")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=8443,
    show_default=True,
    help="Port; 0 means any free one, which goes to standard output.",
)
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
    "--plain",
    is_flag=True,
    help="Serve other machines without TLS: others on the network can read tokens and replace "
    "the agent file.",
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
@dsn_option
def gateway(
    invocation: Invocation,
    *,
    host: str,
    port: int,
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
      taskq gateway --host 0.0.0.0 --tls-cert chain.pem --tls-key key.pem
      taskq gateway --port 8080 --proxy 127.0.0.1
    """
    with needs("the gateway needs", "gateway"):
        from taskq.files.blobs import open_blobs  # noqa: PLC0415  # the extra may be missing
        from taskq.gateway import server  # noqa: PLC0415
        from taskq.gateway.settings import ServerCertificate, Settings  # noqa: PLC0415
    if pages and importlib.util.find_spec("jinja2") is None:
        raise ExtraMissing("the pages need jinja2", "web")
    check_tls(host, tls_cert, tls_key, plain=plain, agents=True)
    _check(gateways, proxies)
    if log_json:
        log_json_to_stderr(logging.DEBUG if verbose else logging.WARNING if quiet else logging.INFO)
    else:
        log_to_stderr(verbose=verbose, quiet=quiet)
    certificate = ServerCertificate(tls_cert, tls_key) if tls_cert and tls_key else None
    with invocation.client(waits=True) as known, Client(known.database.anonymous()) as client:
        serving = server.Gateway(
            client,
            open_blobs(client.database, blobs),
            Settings(lease_s, gateways, lines, _most_clients(), front),
            server.Listening(host, port, share_port, certificate, proxies),
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


def _most_clients() -> int:
    """Return the most connections that leave enough file descriptors for everything else."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0] - FILES_FOR_OTHERS


_MOST_PORT: Final = 65_535


@click.command()
@click.option(
    "--listen",
    default="127.0.0.1:8078",
    show_default=True,
    metavar="ADDRESS:PORT",
    help="Where to listen; port 0 means any free one, which goes to standard output.",
)
@click.option(
    "--require-token",
    is_flag=True,
    help="Ask for managers' tokens instead of the secret in the address. Needed if other machines "
    "can connect.",
)
@tls_options
@click.option(
    "--plain",
    is_flag=True,
    help="Serve other machines without TLS: others on the network can read tokens.",
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

    The pages show what `status`, `explain`, `failures`, `hosts`, `agents` and `history` show, and
    change nothing. The command prints their address, which holds a secret. With --require-token,
    people sign in with a token of `taskq token create --manager`; it limits the campaigns that
    they see.

    Examples:
      taskq web
      taskq web --listen 0.0.0.0:8078 --require-token --tls-cert chain.pem --tls-key key.pem
    """
    with needs("the pages need", "web"):
        from taskq.web import server  # noqa: PLC0415  # the extra may be missing
    host, port = _address(listen)
    if not require_token and not is_loopback(host):
        raise UsageError(
            f"at {host} everybody who can reach this machine could read the pages; give "
            "--require-token, so that only those with a manager's token can, or listen at 127.0.0.1"
        )
    check_tls(host, tls_cert, tls_key, plain=plain, agents=False)
    log_to_stderr(verbose=False, quiet=True)
    with invocation.reader(waits=True) as known, anonymous(known) as client:
        site = server.Site(host, port, require_token, tls_cert, tls_key)
        server.serve(client, site, click.echo)


def _address(listen: str) -> tuple[str, int]:
    """Return host and port; raise `UsageError`."""
    host, colon, port = listen.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > _MOST_PORT:
        raise UsageError(f"--listen {listen!r}: give an address and a port, such as 127.0.0.1:8078")
    return host.removeprefix("[").removesuffix("]"), int(port)
