"""Settings of a pilot, each declared once: checks, keys of files, options, docs/fleet.md.

They become lines of a job script and arguments of programs, so each value must have a given form.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Final

from taskq.model.errors import UsageError
from taskq.model.settings import (
    FLAG,
    TEXT,
    TEXTS,
    TIME,
    WHOLE,
    ValueKind,
    described,
    setting,
    settings,
)
from taskq_agent.named_resources import counted, named_amount
from taskq_agent.resources import Resources, offers, with_protocol
from taskq_agent.units import size_in_bytes

DRIVERS: Final = ("slurm", "pbs", "htcondor", "kubernetes", "local", "ssh")
MAX_JOBS: Final = 100_000
#: Slurm's own limit is 1,001 unless a site sets another.
MAX_ARRAY: Final = 1_000
MAX_CORES: Final = 4_096
MAX_NODES: Final = 1_000
#: The part of its time that an agent keeps to hand back unfinished tasks.
RESERVE_S: Final = 30.0

_WORD = re.compile(r"[A-Za-z0-9_.,:/@%+=\[\]&|*()-]{1,200}")
_IMAGE = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.:/@-]{0,300}")
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_CONTEXT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/@+-]{0,252}")
FOLDER_FORM = re.compile(r"/[A-Za-z0-9_.,+=@/-]{1,200}")
#: The amount of a named resource within an option, in these units.
_UNITS: Final = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_AMOUNT = re.compile(r"\{(|KiB|MiB|GiB)\}")
_MAX_CHARS: Final = 20_000
_MAX_LINE_CHARS: Final = 4_096
_MOST_TEXTS: Final = 1_000
_NOTHING: Final = (None, (), "", False)
#: The kind of a setting that is a file on the command line, and its text in a pilot file.
LINES: Final = ValueKind("text of several lines", "FILE")
#: The kind of a setting that is the path of a file.
FILE: Final = ValueKind("text", "FILE")

_count: Final = partial(setting, WHOLE, low=1)
_time: Final = partial(setting, TIME, high=31_536_000)

_batch: Final = ("slurm", "pbs", "htcondor")

_kubernetes: Final = partial(setting, default=None, drivers=("kubernetes",))


def _line(name: str, value: object, most: int = _MAX_LINE_CHARS) -> str:
    text = _text(name, value, most)
    if not text.isprintable():
        raise UsageError(f"{name} is {value!r:.40}; it must be one line without control characters")
    return text


def _text(name: str, value: object, most: int = _MAX_CHARS) -> str:
    if not isinstance(value, str) or "\0" in value or len(value) > most:
        raise UsageError(
            f"{name} is {value!r:.40}; it must be a text of {most:,} characters at most"
        )
    return value


def _lines(name: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)) or len(value) > _MOST_TEXTS:
        raise UsageError(f"{name} must be a list of texts, {_MOST_TEXTS:,} at most")
    return tuple(_line(name, text) for text in value)


def of_form(form: re.Pattern[str], what: str) -> Callable[[str, object], str]:
    """Return a check that a value is a line of this form."""

    def check(name: str, value: object) -> str:
        text = _line(name, value)
        if not form.fullmatch(text):
            raise UsageError(f"{name} is {value!r:.80}; it must be {what}")
        return text

    return check


_several: Final = partial(setting, TEXTS, default=(), check=_lines)
_word: Final = partial(setting, TEXT, default=None, check=of_form(_WORD, "one word"))
_path: Final = partial(setting, FILE, default=None, check=_line)
_sized: Final = partial(_word, drivers=(*_batch, "kubernetes"))


@dataclass(frozen=True, kw_only=True)
class PilotSettings:
    """How a pilot's jobs are submitted, and how many."""

    folder: str = setting(
        TEXT,
        "where jobs write and find the agent, which Slurm's and PBS's nodes must see; with ssh, on "
        "each host; `~/taskq-pilots/NAME` if it is left out",
        check=of_form(FOLDER_FORM, "an absolute path of letters, digits and ._,+=@-"),
        metavar="FOLDER",
    )
    cores: int = _count("cores of a job", 1, high=MAX_CORES)
    nodes: int = _count(
        "nodes of a job, each with an agent; cores, slots, memory and GPUs are those of one node",
        1,
        high=MAX_NODES,
        drivers=("slurm",),
    )
    slots: int | None = _count(
        "slots of a job's agent, which share the job's cores, memory and GPUs; none: one a core",
        None,
        high=MAX_CORES,
        optional=True,
    )
    time_limit: float = _time("time limit of a job", 3_600.0, low=60)
    max_jobs: int = _count("most jobs, queued and running together", 10, high=MAX_JOBS)
    backlog: int = _count(
        "most jobs that wait in the batch system, while it lets few through", 2, high=MAX_JOBS
    )
    array: int = _count(
        "most jobs that are submitted together, as one job array; `backlog` says how many may wait",
        1,
        high=MAX_ARRAY,
        drivers=("slurm", "htcondor"),
    )
    least_work: float = _time(
        "work for each slot that justifies another job, as far as a job can do it",
        300.0,
        low=0.001,
    )
    idle_timeout: float = _time("time without a task after which an agent leaves", 120.0, low=1)
    offers: tuple[str, ...] = _several(
        "tag that the agents offer, such as `gpu=a100`, in addition to a slot's share of the job",
        option="--offer",
        metavar="TAG",
    )
    site: str = setting(
        TEXT, "site of the agents; none: their token's name", "", check=_line, metavar="SITE"
    )
    gateways: tuple[str, ...] = _several(
        "gateway of the agents; none: they connect to the loop's database",
        option="--gateway",
        metavar="URL",
    )
    token_file: str | None = _path(
        "file with the site's token for gateways, which only its owner may read"
    )
    ca: str | None = _path("certificates of gateways to trust instead of the system's")
    insecure_http: bool = setting(FLAG, "allow http:// gateways on other machines", False)
    python: str = setting(
        TEXT,
        "Python of the nodes, with gateways",
        "python3",
        check=_line,
        option="--interpreter",
        metavar="PROGRAM",
    )
    setup: str = setting(
        LINES,
        "lines of shell that a job runs before its agent, such as `module load python`",
        "",
        check=_text,
    )
    agent_options: tuple[str, ...] = _several(
        "further option of the agent", option="--agent-option", metavar="--NAME=VALUE"
    )
    partition: str | None = _word("partition of Slurm, queue of PBS", drivers=("slurm", "pbs"))
    account: str | None = _word("account; of HTCondor, accounting group", drivers=_batch)
    qos: str | None = _word("quality of service", drivers=("slurm",))
    memory: str | None = _sized(
        "memory of a job, as the batch system spells it: `64G`, `64Gi`", metavar="SIZE"
    )
    gpus: str | None = _sized(
        "GPUs of a job: `2`, of Slurm also `a100:2`, of Kubernetes `amd.com/gpu:2`", metavar="N"
    )
    image: str | None = _kubernetes(
        TEXT,
        "image of the container, with Python or that of `--interpreter`",
        check=of_form(_IMAGE, "the name of an image"),
    )
    namespace: str | None = _kubernetes(
        TEXT,
        "namespace of the jobs; none: kubectl's",
        check=of_form(_LABEL, "the name of a namespace"),
        metavar="NAME",
    )
    context: str | None = _kubernetes(
        TEXT,
        "cluster, as kubectl knows it; none: its own",
        check=of_form(_CONTEXT, "the name of a context"),
        metavar="NAME",
    )
    pod: str | None = _kubernetes(
        LINES,
        "further fields of the pod, as JSON: nodeSelector, tolerations, volumes",
        check=_text,
    )
    as_needed: bool = setting(
        FLAG,
        "jobs are as large as the tasks need, see [sizes of jobs](#sizes-of-jobs); cores, memory, "
        "GPUs and resources are the least then",
        False,
        drivers=(*_batch, "kubernetes"),
    )
    resources: tuple[str, ...] = _several(
        "named resource of a job's agent, such as `scratch=200GB`",
        option="--resource",
        metavar="NAME=AMOUNT",
    )
    resource_options: tuple[str, ...] = _several(
        "by which of `options` a job asks for a named resource: `scratch=--tmp={MiB}`, "
        "`licence=--licenses=vina:{}`, `scratch=scratch={MiB}mb`, `scratch=request_disk = {KiB}`; "
        "in braces the unit",
        drivers=_batch,
        option="--resource-option",
        metavar="NAME=OPTION",
    )
    options: tuple[str, ...] = _several(
        "of Slurm, further option of sbatch; of PBS, option of qsub, such as `-P wisdom`, or "
        "resource of a chunk, such as `model=bro`; of HTCondor, line of the submit description, "
        "`NAME = VALUE`",
        drivers=_batch,
        option="--option",
        metavar="--NAME=VALUE",
    )
    hosts: tuple[str, ...] = _several(
        "host, such as `me@node7`", drivers=("ssh",), option="--host", metavar="HOST"
    )
    jobs_per_host: int = _count("most jobs on each host", 1, high=MAX_JOBS, drivers=("ssh",))

    @property
    def slot_count(self) -> int:
        """How many tasks an agent works on at a time."""
        return self.slots or self.cores

    @property
    def job_slots(self) -> int:
        """How many tasks all agents of a job work on at a time."""
        return self.nodes * self.slot_count

    @property
    def gpu_count(self) -> int:
        """How many GPUs a job has."""
        found = re.search(r"\d{1,4}$", self.gpus or "")
        return int(found[0]) if found else 0

    @property
    def memory_bytes(self) -> int | None:
        """The memory of a job; None if it is not given, or in a unit of the batch system's own."""
        return _size(self.memory)

    @property
    def named_resources(self) -> dict[str, int]:
        """The named resources of a job's agent."""
        return counted(map(named_amount, self.resources))

    @property
    def all_options(self) -> tuple[str, ...]:
        """The further options, with those that ask for named resources."""
        amounts = self.named_resources
        asked = [text.partition("=")[::2] for text in self.resource_options]
        return (
            *self.options,
            *(filled(option, amounts[name]) for name, option in asked if name in amounts),
        )

    @property
    def all_offers(self) -> tuple[str, ...]:
        """Tags of the agents, with what a start can have of the job."""
        job = Resources(
            count=self.cores,
            memory=self.memory_bytes,
            gpus=tuple(map(str, range(self.gpu_count))),
            named=self.named_resources,
        )
        return with_protocol(offers(job, self.slot_count, self.offers))

    @property
    def lifetime_s(self) -> float:
        """How long a task can run in a job that has just begun, in seconds."""
        return max(self.time_limit - RESERVE_S, self.time_limit / 2)

    @property
    def most(self) -> int:
        """How many jobs may be live."""
        return min(self.max_jobs, len(self.hosts) * self.jobs_per_host or self.max_jobs)

    def to_json(self) -> str:
        """Return the settings as JSON, without empty ones."""
        table = asdict(self)
        return json.dumps({name: value for name, value in table.items() if value not in _NOTHING})


#: The settings of pilots by name: keys of pilot files, options of `taskq pilot add`.
SETTINGS: Final = settings(PilotSettings)
PilotSettings.__doc__ = f"{PilotSettings.__doc__}\n{described(PilotSettings)}\n"


def filled(option: str, amount: int) -> str:
    """Return an option of a batch system with an amount in it, rounded up to whole units."""
    return _AMOUNT.sub(lambda unit: str(-(-amount // _UNITS[unit[1]])), option)


def _size(memory: str | None) -> int | None:
    """Return bytes, if batch systems agree on the notation: 64G, 64GB, 64Gi."""
    found = re.fullmatch(r"(\d{1,9}(\.\d{1,3})?[KMGT])(B|i|iB)?", memory or "")
    return size_in_bytes(found[1]) if found else None
