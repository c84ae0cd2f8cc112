"""Context of a handler, and the environment variables of payload code."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Mapping, Tuple

from taskq_agent import mps, named_resources
from taskq_agent import variables as rules
from taskq_agent.folders import SlotFolders
from taskq_agent.handlers.base import AttemptOver, RunnerSettings, refused
from taskq_agent.handlers.definition import PlaceholderMissing, fill
from taskq_agent.handlers.limits import ChildWatch
from taskq_agent.handlers.live import LiveAttempt
from taskq_agent.paths import is_dir
from taskq_agent.protocol import CampaignTerms, Task
from taskq_agent.resources import Resources
from taskq_agent.room import Grant
from taskq_agent.scratch import CHECKPOINT_FOLDER, OUTPUT_FOLDER, PROGRESS_FILE, RESULT_FILE

#: Members of a task's message, and the equivalent variables of other kinds of handlers.
_PLACES = {"checkpoint": "TASKQ_CHECKPOINT", "out": "TASKQ_OUT", "progress": "TASKQ_PROGRESS"}


def own() -> Dict[str, str]:
    """Return the agent's own environment, without secrets."""
    return {name: value for name, value in os.environ.items() if not rules.is_withheld(name)}


def inherited() -> Dict[str, str]:
    """Return the agent's own environment for children that start in other folders."""
    its = own()
    if "PYTHONPATH" in its:  # may be relative to the folder where the agent was started
        paths = filter(None, its["PYTHONPATH"].split(os.pathsep))
        its["PYTHONPATH"] = os.pathsep.join(str(Path(path).absolute()) for path in paths)
    return its


def of_slot(
    slot: int,
    share: Resources,
    campaign: CampaignTerms,
    inputs: Mapping[str, str],
    *,
    given: Mapping[str, str],
    grant: Grant,
) -> Dict[str, str]:
    """Return the variables of all tasks of a campaign in a slot: what they may use and read.

    inputs: the paths of the campaign's inputs by name. given: what the campaign sets instead.
    grant: what the slot has of the node.
    """
    variables = {
        "TASKQ_CAMPAIGN": campaign.path,
        "TASKQ_INPUTS": json.dumps(inputs),
        "TASKQ_SLOT": str(slot),
    }
    if campaign.cores is not None:
        variables["OMP_NUM_THREADS"] = str(campaign.cores)
    if campaign.gpus is not None:
        variables[share.gpu_variable] = ",".join(grant.names)
        if grant.gpu_memory is not None:
            variables["TASKQ_GPU_MEMORY_MB"] = str(grant.gpu_memory >> 20)
        variables.update(mps.variables(grant))
    variables.update(named_resources.variables(campaign.named_resources))
    return {name: value for name, value in variables.items() if name not in given}


def of_children(
    campaign: CampaignTerms, own: Mapping[str, str], given: Mapping[str, str]
) -> Dict[str, str]:
    """Return the environment of the children; own, given: as of `KindContext`."""
    boxed = "container" in campaign.handler
    return {**inherited(), **own, **({} if boxed else given)}


def of_handler(
    campaign: CampaignTerms, inputs: Mapping[str, str], allowed: Tuple[str, ...]
) -> Dict[str, str]:
    """Return the variables that a campaign gives its program, and those of the agent it asks for.

    allowed: names that the agent may pass. Raises AttemptOver if it cannot, so that no program
    runs with a variable that is silently empty.
    """
    handler: Mapping[str, Any] = campaign.handler
    passed: Dict[str, str] = {}
    for name in handler.get("pass_env") or ():
        if name not in allowed:
            raise _unavailable(f"this agent passes no {name}, unless it has --allow-env {name}")
        if (value := os.environ.get(name)) is None:
            raise _unavailable(f"{name} is not set where this agent was started")
        try:
            rules.check_value(name, value)
        except ValueError as error:
            raise _unavailable(str(error)) from None
        passed[name] = value
    given: Mapping[str, str] = handler.get("env") or {}
    try:
        for name, value in given.items():
            (passed[name],) = fill([value], params=campaign.params, inputs=inputs)
    except PlaceholderMissing as error:
        raise AttemptOver(error.ended()) from None
    return passed


def _unavailable(text: str) -> AttemptOver:
    return AttemptOver(refused("variable-unavailable", text))


def names_of(task: Task) -> Dict[str, str]:
    """Return the variables that name an attempt."""
    return {
        "TASKQ_TASK": str(task.task),
        "TASKQ_KEY": task.key,
        "TASKQ_ATTEMPT": str(task.attempt),
    }


def of_start(folder: str) -> Dict[str, str]:
    """Return the variables of a start of a program, for one task or many."""
    return {
        "TASKQ_SCRATCH": folder,
        "TASKQ_PROGRESS": f"{folder}/{PROGRESS_FILE}",
        "TMPDIR": folder,
    }


def of_task(task: Task, folder: str) -> Dict[str, str]:
    """Return the variables that an attempt adds."""
    variables = {
        **names_of(task),
        **of_start(folder),
        "TASKQ_RESULT": f"{folder}/{RESULT_FILE}",
    }
    for name, inside in (("TASKQ_CHECKPOINT", CHECKPOINT_FOLDER), ("TASKQ_OUT", OUTPUT_FOLDER)):
        if is_dir(path := Path(folder, inside)):
            variables[name] = str(path)
    return variables


def question_of(task: Task, path: str, folder: str) -> Dict[str, Any]:
    """Return what a program gets for a task of the campaign at `path`, without its number."""
    variables = of_task(task, folder)
    places = {name: variables[its] for name, its in _PLACES.items() if its in variables}
    about = {"key": task.key, "attempt": task.attempt, "campaign": path}
    return {"task": {**about, "scratch": folder, **places}, "payload": task.payload}


@dataclass(frozen=True)
class KindContext:
    """inputs: paths by name, which are links. input_files: their original targets.

    folders: gives out those of the slot. env: of the children. own_env:
    the part of it that is about the campaign and the slot. given_env: what the campaign sets
    itself, for the program alone: a runtime of containers must not obey it. cores: the cores that
    tasks are bound to, if any. live: the running attempt, for its watchers.
    """

    campaign: CampaignTerms
    inputs: Mapping[str, str]
    folders: SlotFolders
    watch: ChildWatch
    live: LiveAttempt
    env: Mapping[str, str]
    own_env: Mapping[str, str]
    cores: Tuple[int, ...]
    settings: RunnerSettings
    given_env: Mapping[str, str]
    input_files: Tuple[str, ...] = ()
