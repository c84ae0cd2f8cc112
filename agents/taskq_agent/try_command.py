"""Command `taskq-agent try`: run payloads by hand, without a queue, to debug their code."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Callable, Dict, Iterator, Mapping, Optional, Sequence, Set, Tuple

from taskq_agent import archive, arguments, required, run_options
from taskq_agent.buffers import json_of
from taskq_agent.errors import Refused
from taskq_agent.handlers import Ended, Runner, RunnerSettings, check_handler, make_runner
from taskq_agent.handlers.base import is_batched
from taskq_agent.named_resources import amount_of, checked_name, counted
from taskq_agent.protocol import DONE, RESULT_REFERENCE, CampaignTerms, Held, Input, Task
from taskq_agent.resources import found
from taskq_agent.room import Grant, Room
from taskq_agent.transport import MAX_BLOB_BYTES
from taskq_agent.units import size_in_bytes

_CHUNK = 1 << 20

_STOP_AGAIN_S = 0.1
#: Keys of the table of resources that are no named ones.
_OTHER_RESOURCES = ("cores", "memory", "gpus", "gpu_memory")
# The first one that holds for a payload counts.
_EXIT_CODES = (os.EX_UNAVAILABLE, os.EX_TEMPFAIL, os.EX_DATAERR)


class LocalBlobs:
    """Implementation of `transport.TaskBlobs`.

    written: the stored blobs, by digest. outputs: the archives of output files, by task.
    """

    def __init__(self) -> None:
        self.written: Dict[str, bytes] = {}
        self.outputs: Dict[int, bytes] = {}
        self._files: Dict[str, Path] = {}
        self._checkpoints: Dict[Tuple[int, int], Input] = {}

    def inputs(self, files: Mapping[str, Path]) -> Dict[str, Input]:
        """Add files by the names that tasks use for them; OSError if one cannot be read."""
        found = {}
        for name, file in files.items():
            hashed, size = hashlib.sha256(), 0
            with file.open("rb") as stream:
                while chunk := stream.read(_CHUNK):
                    hashed.update(chunk)
                    size += len(chunk)
            found[name] = Input(hashed.hexdigest(), size)
            self._files[hashed.hexdigest()] = file
        return found

    def read_blob(self, digest: str, offset: int) -> Iterator[bytes]:
        """Yield a file from an offset to its end."""
        if digest in self.written:
            yield self.written[digest][offset:]
            return
        if digest not in self._files:
            raise Refused(f"no input has the digest {digest}")
        with self._files[digest].open("rb") as stream:
            stream.seek(offset)
            while chunk := stream.read(_CHUNK):
                yield chunk

    def write_blob(self, digest: str, data: bytes) -> None:
        """Keep a large result."""
        self.written[digest] = data

    def find_checkpoint(self, held: Held) -> Optional[Input]:
        """Return the saved checkpoint of a task."""
        return self._checkpoints.get((held.campaign, held.task))

    def memory_failures(self, held: Held) -> int:  # noqa: ARG002
        """Return 0: every attempt is a first one."""
        return 0

    def save_checkpoint(self, held: Held, saved: Input) -> bool:
        """Keep a checkpoint."""
        self._checkpoints[held.campaign, held.task] = saved
        return True

    def save_output(self, held: Held, saved: Input) -> bool:
        """Keep the output files of a task."""
        self.outputs[held.task] = self.written[saved.digest]
        return True


def add_to(actions: Any) -> None:
    """Add the command to the actions of a parser."""
    attempt = actions.add_parser(
        "try",
        usage="%(prog)s (--handler JSON | --campaign-file FILE) [OPTION ...]",
        help="run a payload by a handler and print how it ended",
        description="Run a payload by a handler, exactly as an agent does, and print as JSON "
        "how it ended. Exit code: 0 done, 75 failed but may be tried again, 65 failed for good, "
        "69 this machine cannot do such tasks; of several payloads the first of 69, 75 and 65 "
        "that holds for one. JSON is given as a file's name or in place.",
    )
    attempt.set_defaults(action=_try, parser=attempt)
    what = attempt.add_mutually_exclusive_group(required=True)
    what.add_argument("--handler", type=arguments.json_object, metavar="JSON")
    what.add_argument(
        "--campaign-file",
        type=arguments.campaign_file,
        metavar="FILE",
        help="take handler, parameters and limits from a campaign file, TOML (Python 3.11 and "
        "later) or JSON",
    )
    payloads = attempt.add_mutually_exclusive_group()
    payloads.add_argument("--payload", default={}, type=arguments.json_object, metavar="JSON")
    payloads.add_argument(
        "--payloads",
        type=arguments.json_objects,
        metavar="FILE",
        help="run the payloads in the lines of this file, many to one start if the handler has "
        "`batch`; as each ends, print its number `n` and how it ended, on a line",
    )
    attempt.add_argument(
        "--params",
        default={},
        type=arguments.json_object,
        metavar="JSON",
        help="the campaign's parameters; they come on top of those of the file",
    )
    attempt.add_argument(
        "--input",
        dest="inputs",
        action="append",
        default=[],
        type=arguments.named_file,
        metavar="[NAME=]FILE",
        help="a file that tasks of the campaign share; may be repeated",
    )
    attempt.add_argument(
        "--path",
        action="append",
        default=[],
        metavar="FOLDER",
        help="search Python callables here first; may be repeated",
    )
    attempt.add_argument(
        "--time-limit", type=arguments.seconds_above_0, metavar="TIME", help="default: none"
    )
    attempt.add_argument(
        "--grace",
        type=arguments.seconds_above_0,
        default=5.0,
        metavar="TIME",
        help="between SIGTERM and SIGKILL at the time limit; default: 5",
    )
    attempt.add_argument("--scratch", type=Path, metavar="FOLDER", help="make scratch folders here")
    attempt.add_argument(
        "--keep-scratch", action="store_true", help="leave the scratch folder for inspection"
    )
    for option in run_options.OPTIONS:
        if option.flag in run_options.OF_CONTAINERS:
            run_options.add_option(attempt, option)


def _try(options: argparse.Namespace) -> int:
    parser: argparse.ArgumentParser = options.parser
    try:
        campaign = _campaign(options)
        check_handler(campaign.handler, campaign.params)
    except (argparse.ArgumentTypeError, TypeError, ValueError) as error:
        parser.error(str(error))
    several = options.payloads is not None
    payloads = options.payloads if several else [options.payload]
    tasks = [Task(1, 1, n, f"try-{n}", 1, "", payload) for n, payload in enumerate(payloads, 1)]
    codes: Set[int] = set()

    def show(task: Task, ended: Ended) -> None:
        codes.add(_exit_code(ended))
        shown = _shown(task, ended, blobs)
        text = json.dumps({"n": task.task, **shown}) if several else json.dumps(shown, indent=2)
        sys.stdout.write(f"{text}\n")
        if several:  # of one, the exit code says how it ended, whatever becomes of the output
            sys.stdout.flush()

    with TemporaryDirectory() as cache:
        settings = RunnerSettings(
            scratch_root=options.scratch,
            python_path=tuple(options.path),
            grace_s=options.grace,
            keep_scratch=options.keep_scratch,
            cache_dir=Path(cache),
            node=found(os.environ),
            **run_options.container_settings(vars(options)),
        )
        blobs = LocalBlobs()
        try:
            campaign = replace(campaign, inputs=blobs.inputs(dict(options.inputs)))
        except OSError as error:
            parser.error(str(error))
        runner = make_runner(0, settings, blobs)
        runner.use(Room(settings.node).place(campaign) or Grant())
        _run(runner, tasks, campaign, show)
    return next((code for code in _EXIT_CODES if code in codes), os.EX_OK)


def _shown(task: Task, ended: Ended, blobs: LocalBlobs) -> Dict[str, Any]:
    """Return what is printed of an attempt."""
    if ended.result is not None and RESULT_REFERENCE in ended.result:
        large = blobs.written[ended.result[RESULT_REFERENCE]["digest"]]
        ended = replace(ended, result=json_of(large))
    shown = {name: value for name, value in asdict(ended).items() if name != "output"}
    if (data := blobs.outputs.get(task.task)) is not None:
        head = archive.heading(archive.OUTPUT, task.campaign, task.task)
        members = archive.members(data, head, MAX_BLOB_BYTES)
        shown["files"] = {
            "/".join(member.parts): len(member.content) for member in members if member.content
        }
    return shown


def _named(table: Dict[str, Any]) -> Dict[str, int]:
    """Return what a start needs of named resources; ValueError if an amount is invalid."""
    given = [(name, value) for name, value in table.items() if name not in _OTHER_RESOURCES]
    return counted((checked_name(name), amount_of(str(value))) for name, value in given)


def _size(value: object) -> Optional[int]:
    return None if value is None else size_in_bytes(str(value))


def _campaign(options: argparse.Namespace) -> CampaignTerms:
    """Return the campaign to try; ValueError or TypeError if its values are invalid."""
    content: Dict[str, Any] = options.campaign_file or {"handler": options.handler}
    tables = {}
    for name in ("handler", "params", "limits", "resources", "results"):
        table = content.get(name) or {}
        if not isinstance(table, dict):
            raise TypeError(f"{name} is {table!r:.80}; it must be a table")
        tables[name] = table
    limit_s = options.time_limit or tables["limits"].get("time_limit_s")
    if limit_s is not None:
        limit_s = arguments.seconds_above_0(str(limit_s))
    memory = tables["resources"].get("memory") or []
    return CampaignTerms(
        1,
        1,
        str(content.get("path") or "/try"),
        tables["handler"],
        {**tables["params"], **options.params},
        limit_s,
        cores=tables["resources"].get("cores"),
        memory=tuple(size_in_bytes(str(size)) for size in memory)
        if isinstance(memory, list)
        else (size_in_bytes(str(memory)),),
        gpus=tables["resources"].get("gpus"),
        gpu_memory=_size(tables["resources"].get("gpu_memory")),
        named_resources=_named(tables["resources"]),
        output_bytes=tables["limits"].get("output_bytes"),
        require=required.texts(tables["results"].get("require", [])),
        require_files=tuple(tables["results"].get("require_files", [])),
    )


def _run_all(
    runner: Runner, tasks: Sequence[Task], campaign: CampaignTerms, show: Callable[..., None]
) -> None:
    if not is_batched(campaign):
        for task in tasks:
            show(task, runner.run(task, campaign))
        return

    def tell(
        ends: Sequence[Tuple[Task, Ended]],
        *,
        over: bool = False,  # noqa: ARG001 - the call returns then
        too_large_as: Optional[str] = None,  # noqa: ARG001
        begun: Optional[Sequence[Task]] = (),  # noqa: ARG001
    ) -> None:
        for task, ended in ends:
            show(task, ended)

    size = campaign.handler["batch"]
    for first in range(0, len(tasks), size):
        runner.run_batch(tasks[first : first + size], campaign, tell)


def _run(
    runner: Runner, tasks: Sequence[Task], campaign: CampaignTerms, show: Callable[..., None]
) -> None:
    # in a thread, as in an agent: Ctrl-C must not interrupt the start of a process
    with ThreadPoolExecutor(1) as pool:
        attempt = pool.submit(_run_all, runner, tasks, campaign, show)
        try:
            attempt.result()
        except KeyboardInterrupt:
            while not attempt.done():
                runner.stop()
                wait([attempt], timeout=_STOP_AGAIN_S)
            raise
        finally:
            pool.submit(runner.close).result()


def _exit_code(ended: Ended) -> int:
    if ended.outcome == DONE:
        return os.EX_OK
    if ended.node_broken or ended.refused:
        return os.EX_UNAVAILABLE
    return os.EX_TEMPFAIL if ended.retry else os.EX_DATAERR
