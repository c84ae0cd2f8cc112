"""taskq hands out the tasks of very large campaigns to thousands of agents that pull.

queue = taskq.connect()
run = queue.map(function, arguments, name="/demo")
with taskq.local_agents(queue, slots=8):
    for outcome in run.as_completed():
        ...

or, where agents have programs of their own,

campaign = queue.create_campaign(taskq.CampaignSpec("/demo", handler=...))
campaign.seed({"seed": n} for n in range(1000))
campaign.wait()
for result in campaign.results():
    ...
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taskq.model.errors import (
    AgentsDied,
    CampaignPaused,
    Conflict,
    Forbidden,
    FunctionChanged,
    InvalidCampaign,
    InvalidFilter,
    InvalidPath,
    InvalidTask,
    KeyConflict,
    LoginRefused,
    NotFound,
    NotOverGateway,
    OutputFailed,
    ResultLost,
    ResultNotTrusted,
    SchemaError,
    TaskFailed,
    TaskqError,
    Unavailable,
    UnknownCampaign,
    UsageError,
)
from taskq.model.version import VERSION
from taskq_agent import FailForGood, NodeBroken, Retry, input_path

if TYPE_CHECKING:  # tasks and commands need few of them: `__getattr__` imports these on demand
    from taskq.api import aio as aio
    from taskq.api.client import Client
    from taskq.api.connecting import connect, connect_to_read
    from taskq.campaign.campaign import Campaign
    from taskq.campaign.priorities import Prioritised
    from taskq.compute.executor import Executor
    from taskq.compute.futures import TaskFuture
    from taskq.compute.local_agents import LocalAgents
    from taskq.compute.outcomes import Outcome
    from taskq.compute.run import Run
    from taskq.compute.trust import Trust
    from taskq.files.live_output import OutputPart
    from taskq.ingest.seeding import SeedCount
    from taskq.ingest.sources import Source
    from taskq.model.campaign_spec import CampaignSpec
    from taskq.model.handler import Handler
    from taskq.model.retry_policy import RetryPolicy
    from taskq.model.seed import Seed
    from taskq.model.views import (
        Attempt,
        Failure,
        FailureCause,
        Result,
        Status,
        TaskView,
    )
    from taskq.results.cursor import Cursor
    from taskq.results.feeder import Fed
    from taskq.results.following import WithdrawnResult
    from taskq.results.ranking import Best

__version__ = VERSION

__all__ = [
    "AgentsDied",
    "Attempt",
    "Best",
    "Campaign",
    "CampaignPaused",
    "CampaignSpec",
    "Client",
    "Conflict",
    "Cursor",
    "Executor",
    "FailForGood",
    "Failure",
    "FailureCause",
    "Fed",
    "Forbidden",
    "FunctionChanged",
    "Handler",
    "InvalidCampaign",
    "InvalidFilter",
    "InvalidPath",
    "InvalidTask",
    "KeyConflict",
    "LoginRefused",
    "NodeBroken",
    "NotFound",
    "NotOverGateway",
    "Outcome",
    "OutputFailed",
    "OutputPart",
    "Prioritised",
    "Result",
    "ResultLost",
    "ResultNotTrusted",
    "Retry",
    "RetryPolicy",
    "Run",
    "SchemaError",
    "Seed",
    "SeedCount",
    "Status",
    "TaskFailed",
    "TaskFuture",
    "TaskView",
    "TaskqError",
    "Unavailable",
    "UnknownCampaign",
    "UsageError",
    "WithdrawnResult",
    "aio",
    "connect",
    "connect_to_read",
    "input_path",
    "joblib",
    "local_agents",
    "smiles",
]

_HOMES = {
    "Attempt": "model.views",
    "Best": "results.ranking",
    "Campaign": "campaign.campaign",
    "CampaignSpec": "model.campaign_spec",
    "Client": "api.client",
    "Cursor": "results.cursor",
    "Executor": "compute.executor",
    "Failure": "model.views",
    "FailureCause": "model.views",
    "Fed": "results.feeder",
    "Handler": "model.handler",
    "Outcome": "compute.outcomes",
    "OutputPart": "files.live_output",
    "Prioritised": "campaign.priorities",
    "Result": "model.views",
    "RetryPolicy": "model.retry_policy",
    "Run": "compute.run",
    "Seed": "model.seed",
    "SeedCount": "ingest.seeding",
    "Source": "ingest.sources",
    "Status": "model.views",
    "TaskFuture": "compute.futures",
    "TaskView": "model.views",
    "WithdrawnResult": "results.following",
    "connect": "api.connecting",
    "connect_to_read": "api.connecting",
}

if not TYPE_CHECKING:  # type checkers would take any name for one of this module

    def __getattr__(name: str) -> Any:
        from importlib import import_module  # noqa: PLC0415

        if name == "aio":
            return import_module("taskq.api.aio")
        if name in _HOMES:
            found = getattr(import_module(f"taskq.{_HOMES[name]}"), name)
            return globals().setdefault(name, found)
        raise AttributeError(
            f"module 'taskq' has no attribute {name!r}", name=name, obj=sys.modules[__name__]
        )


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def local_agents(queue: Client, slots: int | None = None, path: str | None = None) -> LocalAgents:
    """Return agents of this machine as a context manager: they work while its block runs.

    Their Python is this program's, and finds what this program imports. Tasks that run at the end
    of the block get 5 s to end, then go back to the queue. The agents leave when this program ends,
    however that happens.

    Args:
        queue: The queue that they serve.
        slots: Tasks at a time; by default the number of processors.
        path: The campaign that they serve, with all below it. By default the agents of the embedded
            server, which is yours alone, serve all campaigns. On any other server they serve the
            campaign that `queue` has created or given calls, with those below it: so they run
            nobody else's code and refuse nobody's tasks.

    Raises:
        UsageError: No `path` was given, and `queue` knows no such campaign, or several.
        AgentsDied: The agents ended before the block did; waits for results raise the same.
    """
    from taskq.compute.local_agents import LocalAgents  # noqa: PLC0415

    return LocalAgents(queue, slots, path)


def joblib(queue: Client, *, trust: Trust = (), **options: Any) -> AbstractContextManager[Any]:
    """Return a context manager in which `joblib.Parallel` computes on the agents of a queue.

    So do scikit-learn's searches and all else that uses joblib; needs joblib. trust: see
    `Client.map`. options: of `joblib.parallel_config`. n_jobs: how many calls are tasks at a time,
    100 by default; agents decide how many run.
    """
    from taskq.compute.joblib_backend import configured  # noqa: PLC0415  # few programs need it

    return configured(queue.queries, queue.calls, trust, options)


def smiles(path: str | Path) -> Source:
    """Return the molecules of a SMILES file, plain or compressed, as arguments for `Client.map`.

    Each is `{"smiles": ..., "name": ...}`, without a name if it has none. The key of its task is
    its name, or its SMILES if it has no name.
    """
    from taskq.ingest.sources import open_source  # noqa: PLC0415

    return open_source(path, format="smiles")
