"""The command `taskq`."""

from __future__ import annotations

from typing import Final

import click

from taskq.model.version import VERSION
from taskq_cli.options.shared import shared_options
from taskq_cli.program import Program, Sections

SECTIONS: Final[Sections] = {
    "Campaigns": {
        "campaign": "campaign:campaign",
        "ls": "status:ls",
        "tree": "status:tree",
        "diff": "campaign:diff",
        "seed": "seed:seed",
        "input": "files:inputs",
        "status": "status:status",
        "watch": "watch:watch",
        "top": "status:top",
        "explain": "explain:explain",
        "troubles": "troubles:troubles",
        "maintenance": "maintenance:maintenance",
        "notify": "notify:notify",
    },
    "Tasks and results": {
        "tasks": "tasks:tasks",
        "retry": "tasks:retry",
        "cancel": "tasks:cancel",
        "prioritise": "prioritise:prioritise",
        "history": "logs:history",
        "logs": "logs:logs",
        "failures": "explain:failures",
        "results": "results:results",
        "export": "export:export",
        "fetch": "files:fetch",
        "traces": "traces:traces",
        "audit": "db:audit",
    },
    "Agents": {
        "agent": "agent:agents",
        "host": "hosts:hosts",
        "site": "sites:sites",
        "pilot": "pilots:pilots",
        "recover": "recover:recover",
        "gateway": "gateway:gateway",
        "web": "gateway:web",
        "token": "token:token",
        "owner": "owners:owners",
        "usage": "usage:usage",
        "limit": "named_limits:limits",
        "keeper": "keeper:keeper",
        "front": "keeper:front",
    },
    "Server": {
        "up": "server:up",
        "down": "server:down",
        "db": "db:db",
        "plan": "plan:plan",
        "completion": "server:completion",
    },
}


@click.group(
    name="taskq",
    cls=Program,
    sections=SECTIONS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(VERSION, message="taskq %(version)s")
@shared_options
def main(_: object) -> None:
    """Hand out the tasks of large campaigns to agents that pull.

    Without --dsn, --url, TASKQ_DSN and TASKQ_URL, commands use an embedded PostgreSQL server of
    this user, and start it when needed.

    Example:
      taskq campaign create /demo -- sleep '{seconds}'
      taskq seed /demo --sweep seconds=1:20
      taskq agent run --campaign /demo --slots 2 --until-empty
    """
