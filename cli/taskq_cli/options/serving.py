"""Options of long-running commands: the log, TLS, leases, the Redis of the front."""

from __future__ import annotations

import json
import logging
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import click
from click.core import ParameterSource

from taskq.dispatch.direct import LEASE_S
from taskq.front.address import FrontAddress
from taskq.model.errors import ExtraMissing, UsageError
from taskq_agent import streams
from taskq_agent.http.gateways import is_loopback
from taskq_cli.display.text import one_line
from taskq_cli.options.shared import together
from taskq_cli.options.values import Decorator, time_option

verbosity_options: Final = together(
    click.option("--verbose", "-v", is_flag=True, help="Log every detail."),
    click.option("--quiet", "-q", is_flag=True, help="Log warnings and errors only."),
)


#: Add `--tls-cert`, `--tls-key` and `--plain`; `check_tls` checks them.
_FILE: Final = click.Path(dir_okay=False, path_type=Path)
tls_options: Final = together(
    click.option("--tls-cert", type=_FILE, metavar="FILE", help="Certificate and chain, in PEM."),
    click.option(
        "--tls-key",
        type=_FILE,
        metavar="FILE",
        help="Private key of the certificate. Both files are read again when they change.",
    ),
    click.option(
        "--plain",
        is_flag=True,
        help="Serve other machines without TLS: others on the network can read tokens, and replace "
        "the agent file that a gateway serves.",
    ),
)
_MOST_PORT: Final = 65_535

_PLAIN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}

ENVIRONMENT: Final = "TASKQ_REDIS"
_NEEDED: Final = ("redis", "msgspec")


def _place(listen: str) -> tuple[str, int]:
    host, colon, port = listen.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > _MOST_PORT:
        raise click.BadParameter(
            f"{listen!r} must be an address and a port, such as 127.0.0.1:8443."
        )
    return host.removeprefix("[").removesuffix("]"), int(port)


def listen_option(default: str) -> Decorator:
    """Add `--listen`; the command gets the pair of host and port."""
    return click.option(
        "--listen",
        type=_place,
        default=default,
        show_default=True,
        metavar="ADDRESS:PORT",
        help="Where to listen; port 0 means any free one, which goes to standard output.",
    )


def lease_option(least_s: float) -> Decorator:
    """Add `--lease`; the command gets `lease_s`."""
    return time_option(
        "--lease",
        "lease_s",
        least=least_s,
        most=86_400,
        default=LEASE_S,
        text="Time without a heartbeat after which an agent's tasks go to other agents.",
    )


def check_tls(host: str, cert: Path | None, key: Path | None, *, plain: bool, agents: bool) -> None:
    """Raise `UsageError` if tokens would cross the network in the clear, or one file is missing.

    agents: whether agents need an option, too, to accept plain HTTP.
    """
    if (cert is None) != (key is None):
        raise UsageError("--tls-cert and --tls-key belong together")
    if cert is None and not plain and not is_loopback(host):
        there = " here and --insecure-http to agents, in a network that you trust" * agents
        raise UsageError(
            f"at {host} tokens would be sent in the clear; give --tls-cert and --tls-key, "
            f"listen at 127.0.0.1 behind a proxy that ends TLS, or give --plain{there}"
        )


def log_to_stderr(*, verbose: bool, quiet: bool, as_json: bool = False) -> None:
    """Log to standard error in lines that a terminal cannot obey, or as JSON Lines."""
    formatter = JsonFormatter() if as_json else streams.LineFormatter(one_line)
    streams.log_to_stderr(formatter, verbose=verbose, quiet=quiet)
    if not (verbose or as_json):
        # psycopg logs each attempt to connect; the command reports a failure once.
        logging.getLogger("psycopg").setLevel(logging.ERROR)


class JsonFormatter(logging.Formatter):
    """Writes a record as one JSON object: time, level, logger, event, and the `extra` fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as a line of JSON."""
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {
            "at": f"{at}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
        }
        line |= {name: it for name, it in vars(record).items() if name not in _PLAIN}
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def _address(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> FrontAddress | None:
    if not value:
        return None
    for module in _NEEDED:
        if find_spec(module) is None:
            raise ExtraMissing(f"--redis needs {module}", "front")
    address = FrontAddress.parsed(value)
    source = context.get_parameter_source(parameter.name or "")
    if address.has_password and source is ParameterSource.COMMANDLINE:
        raise UsageError(
            "--redis holds a password that all users of the machine could read; give the address "
            f"in the environment instead, as {ENVIRONMENT}"
        )
    return address


#: Adds `--redis`; the command gets `front`, a `FrontAddress` or None.
front_option: Final = click.option(
    "--redis",
    "front",
    metavar="URL",
    envvar=ENVIRONMENT,
    callback=_address,
    help="Redis or Valkey for tasks leased ahead, such as redis://host:6379/0 or rediss://... "
    f"Put an address with a password into {ENVIRONMENT}. [default: {ENVIRONMENT}, else none]",
)
