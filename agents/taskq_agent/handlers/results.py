"""Results of payloads, from answers and files: JSON objects that PostgreSQL's jsonb can store.

A result of more than `MAX_RESULT_BYTES` as compact JSON is large. It goes from the payload to its
agent in a file, and from there to the blob store. The queue then has a reference to it. File and
blob are JSON, or JSON with `buffers` as parts, which a reader may take as Base64.

A resident child answers each task with a JSON object on one line:

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

import errno
import json
import os
import stat
from dataclasses import replace
from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Tuple, Union

from taskq_agent import buffers
from taskq_agent.handlers.base import Ended, failed, refused
from taskq_agent.json_limits import has_nul_escape, json_fault, loads
from taskq_agent.protocol import DONE, MAX_DEPTH, MAX_RESULT_BYTES, RESULT_REFERENCE
from taskq_agent.scratch import READ_SAFELY, RESULT_FILE, opened
from taskq_agent.text import clean
from taskq_agent.transport import MAX_BLOB_BYTES

_KEEP_FILES = "keep large outputs in files and return their names"
_TOO_DEEP = f"the result is nested more than {MAX_DEPTH} deep"

RETRY = "retry"
FAIL = "fail"
NODE_BROKEN = "node-broken"
CONTINUE = "continue"

_MAX_CLASS_CHARS = 100
_MAX_EXCEPTION_BYTES = 65_536


class BadResult(ValueError):
    """A payload returned or wrote something that cannot be stored as its result."""


def encoded(
    result: Any, most: int = MAX_RESULT_BYTES, of_data: Optional[Callable[[Any], Any]] = None
) -> str:
    """Return a result of at most `most` bytes as compact JSON; BadResult says what is wrong.

    of_data: makes JSON of `Data`.
    """
    if not isinstance(result, Mapping):
        raise BadResult(f"a result must be a JSON object, not {type(result).__name__}")
    try:
        text = json.dumps(
            dict(result),
            ensure_ascii=False,
            allow_nan=False,
            separators=(",", ":"),
            default=of_data,
        )
        data = text.encode()
    except UnicodeEncodeError:
        raise BadResult("the result is not valid Unicode: it contains a lone surrogate") from None
    except (TypeError, ValueError, RecursionError) as error:
        raise BadResult(f"the result is not JSON: {error}") from None
    if RESULT_REFERENCE in result:
        raise BadResult(f"the name {RESULT_REFERENCE!r} in a result is taskq's own")
    if has_nul_escape(text):
        raise BadResult("the result contains a NUL character, which the database cannot store")
    if (fault := json_fault(data, most=most, deep=MAX_DEPTH)) is not None:
        raise BadResult(f"result {fault}: {_KEEP_FILES}")
    return text


def written(result: Any) -> Tuple[Optional[str], Sequence[buffers.Buffer]]:
    """Return a result as compact JSON, if it is small; else None and the pieces of its blob.

    BadResult says what is wrong.
    """
    parts = buffers.PartsOfJson()
    text = encoded(result, MAX_BLOB_BYTES, parts.of_data)
    data = text.encode()
    if not parts.large:
        return (text, ()) if _is_small(data) else (None, (data,))
    if len(data) + sum(part.nbytes for part in parts.large) <= MAX_RESULT_BYTES:
        text = encoded(result, MAX_BLOB_BYTES, buffers.as_base64)
        if _is_small(text.encode()):
            return text, ()
    pieces = buffers.packed([data, *parts.large])
    size = sum(memoryview(piece).nbytes for piece in pieces)
    if size > MAX_BLOB_BYTES:
        raise BadResult(f"result of {size} bytes; {MAX_BLOB_BYTES} at most: {_KEEP_FILES}")
    return None, pieces


def _is_small(data: bytes) -> bool:
    """Return whether an encoded result goes with its report, not as a blob."""
    return json_fault(data, most=MAX_RESULT_BYTES, deep=MAX_DEPTH) is None


def parsed(text: Union[bytes, bytearray]) -> Any:
    """Return the value of a JSON text from outside; ValueError if it is not JSON.

    NaN and infinity pass here: `encoded` refuses them with a better text. BadResult, a ValueError,
    if it is JSON that Python cannot read.
    """
    try:
        return loads(text)
    except RecursionError:
        raise BadResult(_TOO_DEEP) from None
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise
    except ValueError:
        raise BadResult("the result holds a whole number of thousands of digits") from None


def reference(digest: str, size: int) -> Dict[str, Any]:
    """Return what the queue stores in place of an uploaded large result."""
    return {RESULT_REFERENCE: {"digest": digest, "size": size}}


def ended_with(result: Any) -> Ended:
    """Return a success with this result, large or not, or a failure if it is not valid."""
    try:
        text = encoded(result, MAX_BLOB_BYTES).encode()
    except BadResult as error:
        return failed("bad-result", str(error), retry=False)
    return Ended(DONE, result=result) if _is_small(text) else Ended(DONE, large=text)


def ended_with_file(folder: str) -> Ended:
    """Return the end with the result in the file in a folder, as `ended_with` does.

    FileNotFoundError if there is no file, BadResult if it cannot be read.
    """
    try:
        text = _content(folder)
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise BadResult("the result file is not a regular file but a link") from None
        raise BadResult(f"the result file cannot be read: {error}") from None
    if buffers.is_packed(text):
        try:
            encoded(buffers.json_of(text, lambda _: None), MAX_BLOB_BYTES)
        except RecursionError:
            raise BadResult(_TOO_DEEP) from None
        except BadResult:
            raise
        except ValueError as error:
            raise BadResult(f"the result file is damaged: {error}") from None
        return Ended(DONE, large=text)
    try:
        result = parsed(text)
    except BadResult:
        raise
    except ValueError as error:
        raise BadResult(f"the result file is not JSON: {error}") from None
    return ended_with(result)


def _content(folder: str) -> bytes:
    with opened(folder) as inside:
        fd = os.open(RESULT_FILE, READ_SAFELY, dir_fd=inside)
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise BadResult("the result file is not a regular file")
        # Read nothing that is too large anyway: the agent's memory is not limited like a task's.
        text = b""
        if status.st_size <= MAX_BLOB_BYTES:
            with open(fd, "rb", buffering=0, closefd=False) as file:
                text = file.read(status.st_size + 1)
    finally:
        os.close(fd)
    if (size := max(status.st_size, len(text))) > MAX_BLOB_BYTES:
        raise BadResult(f"the result file has {size} bytes; {MAX_BLOB_BYTES} at most")
    return text


class BadAnswer(Exception):
    """The child violates the protocol; none of its further output can be trusted."""


def ended_by(answer: Mapping[str, Any], question_id: int, folder: str) -> Ended:
    """Return the end of the attempt in an answer; BadAnswer if the answer is not understood.

    folder: the scratch folder of the task.
    """
    if answer.get("id") != question_id:
        raise BadAnswer(f"answered with id {answer.get('id')!r} to a task with id {question_id}")
    if "result" in answer:
        return ended_with(answer["result"])
    if is_in_file(answer):
        return ended_as_in_file(folder)
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


def is_in_file(answer: Mapping[str, Any]) -> bool:
    """Return whether an answer says that its result is in the file."""
    return answer.get("result_file") is True and "result" not in answer


def ended_as_in_file(folder: str) -> Ended:
    """Return the end of an attempt that has said that its result is in the file in a folder."""
    try:
        return ended_with_file(folder)
    except (BadResult, FileNotFoundError) as error:
        return failed("bad-result", str(error), retry=False)


def _exception(answer: Mapping[str, Any]) -> Optional[Mapping[str, Any]]:
    """Return the parts of an exception, if they can be stored."""
    parts = answer.get("exception")
    try:
        if isinstance(parts, dict):
            encoded({"exception": parts}, _MAX_EXCEPTION_BYTES)
            return parts
    except BadResult:
        pass
    return None
