"""Answers of a resident child about a task, each a JSON object on one line.

    {"id": 1, "result": {...}}
    {"id": 1, "result_file": true}
    {"id": 1, "error": "text", "error_class": "name", "verdict": "retry" | "fail" | ...}

`id` repeats the id of the task; otherwise a superfluous line would count as the result of the next
task. `result_file`: the result is in the file `taskq-result.json` in the scratch folder of the
task; a large result must be there. `error_class` and `verdict` may be omitted; the verdict is then
`retry`. `node-broken`: no task of the campaign can run here. `continue`: another attempt goes on
from the checkpoint. An error may have `exception`, an object with the parts of a Python exception,
which is kept in the result of the attempt.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Mapping, Optional

from taskq_agent.handlers import results
from taskq_agent.handlers.base import Ended, failed, refused
from taskq_agent.text import clean

RETRY = "retry"
FAIL = "fail"
NODE_BROKEN = "node-broken"
CONTINUE = "continue"

_MAX_CLASS_CHARS = 100
_MAX_EXCEPTION_BYTES = 65_536


class BadAnswer(Exception):
    """The child violates the protocol; none of its further output can be trusted."""


def ended(answer: Mapping[str, Any], question_id: int, folder: str) -> Ended:
    """Return the end of the attempt in an answer; BadAnswer if the answer is not understood.

    folder: the scratch folder of the task.
    """
    if answer.get("id") != question_id:
        raise BadAnswer(f"answered with id {answer.get('id')!r} to a task with id {question_id}")
    if "result" in answer:
        return results.ended(answer["result"])
    if answer.get("result_file") is True:
        try:
            return results.ended(results.from_file(folder))
        except (results.BadResult, FileNotFoundError) as error:
            return failed("bad-result", str(error), retry=False)
    if "error" not in answer:
        raise BadAnswer(f"answered with neither result nor error, but {sorted(answer)!r}")
    error_class = clean(str(answer.get("error_class") or "error"))[:_MAX_CLASS_CHARS]
    text, verdict = str(answer["error"]), answer.get("verdict", RETRY)
    if verdict == NODE_BROKEN:
        return refused(error_class, text)
    if verdict == CONTINUE:
        return replace(failed(error_class, text, retry=False), continues=True)
    if verdict not in (RETRY, FAIL):
        known = "retry, fail, continue or node-broken"
        raise BadAnswer(f"gave the verdict {verdict!r}; it must be {known}")
    exception = _exception(answer)
    end = replace(failed(error_class, text, retry=verdict == RETRY), raised=True)
    return replace(end, result={"exception": exception}) if exception is not None else end


def _exception(answer: Mapping[str, Any]) -> Optional[Mapping[str, Any]]:
    """Return the parts of an exception, if they can be stored."""
    parts = answer.get("exception")
    try:
        if isinstance(parts, dict):
            results.encoded({"exception": parts}, _MAX_EXCEPTION_BYTES)
            return parts
    except results.BadResult:
        pass
    return None
