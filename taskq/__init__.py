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

from pathlib import Path
from typing import TYPE_CHECKING, Any

from taskq.api.client import Client, connect
from taskq.api.reader import connect_to_read
from taskq.campaign.campaign import Campaign
from taskq.campaign.priorities import Prioritised
from taskq.files.live_output import OutputPart
from taskq.ingest.seeding import SeedCount
from taskq.ingest.sources import Source, open_source
from taskq.model.campaign_spec import CampaignSpec, RetryPolicy
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
from taskq.model.handler import Handler
from taskq.model.seed import Seed
from taskq.model.version import VERSION
from taskq.model.views import Attempt, Failure, FailureCause, Result, Status, TaskView
from taskq.results.cursor import Cursor
from taskq.results.feeder import Fed
from taskq.results.ranking import Best
from taskq_agent import FailForGood, NodeBroken, Retry, input_path

if TYPE_CHECKING:  # few programs need them: `__getattr__` imports these when they are used
    from taskq.api import aio as aio
    from taskq.compute.executor import Executor
    from taskq.compute.local_agents import LocalAgents
    from taskq.compute.outcomes import Outcome
    from taskq.compute.run import Run

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
    "TaskView",
    "TaskqError",
    "Unavailable",
    "UnknownCampaign",
    "UsageError",
    "connect",
    "connect_to_read",
    "input_path",
    "local_agents",
    "smiles",
]

_COMPUTING = {"Executor": "executor", "Outcome": "outcomes", "Run": "run"}


def __getattr__(name: str) -> Any:
    from importlib import import_module  # noqa: PLC0415

    if name in _COMPUTING:
        return getattr(import_module(f"taskq.compute.{_COMPUTING[name]}"), name)
    if name == "aio":
        return import_module("taskq.api.aio")
    raise AttributeError(f"module 'taskq' has no attribute {name!r}")


def local_agents(queue: Client, slots: int | None = None, path: str | None = None) -> LocalAgents:
    """Return agents of this machine as a context manager: they work while its block runs.

    slots: tasks at a time; by default the number of processors.
    path: the campaign that they serve, with all below it. By default the agents of the embedded
    server, which is yours alone, serve all campaigns. On any other server they serve the campaign
    that `queue` has created or given calls, with those below it: so they run nobody else's code
    and refuse nobody's tasks. Raise `UsageError` if there is no such campaign, or several.

    Their Python is this program's, and finds what this program imports. Tasks that run at the end
    of the block get 5 s to end, then go back to the queue. The agents leave when this program ends,
    however that happens. If they end before, waits for results raise `AgentsDied`, and so does the
    end of the block.
    """
    from taskq.compute.local_agents import LocalAgents  # noqa: PLC0415

    return LocalAgents(queue, slots, path)


def smiles(path: str | Path) -> Source:
    """Return the molecules of a SMILES file, plain or gzip, as arguments for `Client.map`.

    Each is `{"smiles": ..., "name": ...}`, without a name if it has none. The key of its task is
    its name, or its SMILES if it has no name.
    """
    return open_source(path, format="smiles")
