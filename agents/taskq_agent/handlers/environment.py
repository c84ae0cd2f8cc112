"""Environment variables of payload code."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Dict, Mapping

from taskq_agent.protocol import CampaignTerms, Task

RESULT_FILE = "taskq-result.json"
#: In the scratch folder, where the campaign keeps checkpoints.
CHECKPOINT_FOLDER = "taskq-checkpoint"
#: In the scratch folder, where the campaign keeps output files.
OUTPUT_FOLDER = "taskq-out"

# The agent's own settings and libpq's, which hold secrets; PGI belongs to a compiler.
_WITHHELD = re.compile(r"TASKQ_\w*|PG(?!I$)[A-Z]+")


def own() -> Dict[str, str]:
    """Return the agent's own environment, without secrets."""
    return {name: value for name, value in os.environ.items() if not _WITHHELD.fullmatch(name)}


def of_campaign(campaign: CampaignTerms, inputs: Mapping[str, str]) -> Dict[str, str]:
    """Return the environment common to all children of a campaign: our own, without secrets.

    inputs: the paths of the campaign's inputs by name.
    """
    its = own()
    its["TASKQ_CAMPAIGN"] = campaign.path
    its["TASKQ_INPUTS"] = json.dumps(inputs)
    if "PYTHONPATH" in its:  # may be relative to the folder where the agent was started
        paths = filter(None, its["PYTHONPATH"].split(os.pathsep))
        its["PYTHONPATH"] = os.pathsep.join(str(Path(path).absolute()) for path in paths)
    return its


def of_task(task: Task, folder: str) -> Dict[str, str]:
    """Return the variables that an attempt adds."""
    variables = {
        "TASKQ_TASK": str(task.task),
        "TASKQ_KEY": task.key,
        "TASKQ_ATTEMPT": str(task.attempt),
        "TASKQ_SCRATCH": folder,
        "TASKQ_RESULT": f"{folder}/{RESULT_FILE}",
        "TMPDIR": folder,
    }
    for name, inside in (("TASKQ_CHECKPOINT", CHECKPOINT_FOLDER), ("TASKQ_OUT", OUTPUT_FOLDER)):
        if (path := Path(folder, inside)).is_dir():
            variables[name] = str(path)
    return variables
