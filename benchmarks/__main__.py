"""`python -m benchmarks`: measure the queue, and compare it with the limit of the server."""

from __future__ import annotations

import signal
import sys

import click

from taskq_cli.options.shared import shared_options
from taskq_cli.program import Program


@click.group(
    name="benchmarks",
    cls=Program,
    package="benchmarks",
    sections={"Benchmarks": {"run": "command:run", "list": "command:listed"}},
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@shared_options
def main(_: object) -> None:
    """Measure this checkout on this machine, next to the server's limit.

    Example:
      python -m benchmarks run one-row batches --rounds 3
    """


if __name__ == "__main__":
    # As Ctrl-C does: else it would leave processes at work, and databases.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    main(prog_name="python -m benchmarks")
