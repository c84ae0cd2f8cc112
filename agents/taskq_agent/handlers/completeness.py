"""Checks of results against what their campaign requires, before they are reported.

A result is checked wherever it is: in the report, in a large result, in the archive of the output
files. See `required` for the judgement.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Iterator, Mapping, Tuple

from taskq_agent import archive
from taskq_agent.buffers import json_of
from taskq_agent.handlers.base import Ended, failed
from taskq_agent.handlers.kept_files import with_output_files
from taskq_agent.protocol import DONE, RESULT_INCOMPLETE, CampaignTerms, Task
from taskq_agent.required import lacking
from taskq_agent.transport import MAX_BLOB_BYTES


def with_all_required(ended: Ended, scratch: str, task: Task, campaign: CampaignTerms) -> Ended:
    """Return the end of an attempt with its output files.

    A success that lacks what the campaign requires becomes a failure that keeps the result.
    """
    if campaign.output_bytes is not None:
        ended = with_output_files(ended, scratch, task, campaign.output_bytes)
    if ended.outcome != DONE or not (campaign.require or campaign.require_files):
        return ended
    fault = lacking(
        _result(ended) if campaign.require else {},
        dict(_files(ended, task)) if campaign.require_files else {},
        campaign.require,
        campaign.require_files,
    )
    if not fault:
        return ended
    over = failed(RESULT_INCOMPLETE, f"the result is not complete: {fault}", retry=True)
    return replace(
        over, result=ended.result, large=ended.large, phases=ended.phases, tail=ended.tail
    )


def _result(ended: Ended) -> Mapping[str, Any]:
    result = ended.result
    if ended.large is not None:
        result = json_of(ended.large, lambda _: "")
    return result if isinstance(result, Mapping) else {}


def _files(ended: Ended, task: Task) -> Iterator[Tuple[str, int]]:
    """Yield names and sizes of the output files."""
    if ended.output is None:
        return
    head = archive.heading(archive.OUTPUT, task.campaign, task.task)
    for member in archive.members(ended.output, head, MAX_BLOB_BYTES):
        if member.content is not None:
            yield "/".join(member.parts), len(member.content)
