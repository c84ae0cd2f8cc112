"""Settings of a pilot: plain, checked values from a TOML file or the command line.

They become lines of a job script and arguments of programs, so each value must have a given form.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from taskq.model.errors import UsageError
from taskq.model.requirements import check_offers
from taskq.model.settings import known_only
from taskq_agent import arguments
from taskq_agent.resources import Resources, offers, with_protocol
from taskq_agent.text import size_in_bytes

DRIVERS: Final = ("slurm", "pbs", "htcondor", "kubernetes", "local", "ssh")
MAX_JOBS: Final = 100_000
MAX_CORES: Final = 4_096
#: The part of its time that an agent keeps to hand back unfinished tasks.
RESERVE_S: Final = 30.0

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
_WORD = re.compile(r"[A-Za-z0-9_.,:/@%+=\[\]&|*()-]{1,200}")
# No quotes, so that a value with spaces can be put between quotes.
_OPTION = re.compile(
    r"--[a-z][a-z0-9-]{0,40}"
    r"(=[A-Za-z0-9_.,:/@%+=\[\]&|*()-][A-Za-z0-9_.,:/@%+=\[\]&|*() -]{0,199})?"
)
_PBS_OPTION = re.compile(
    r"(-[A-Za-z]( [A-Za-z0-9_.,:/@%+=\[\]&|*()-]{1,200})?"
    r"|[A-Za-z][A-Za-z0-9_]{0,60}=[A-Za-z0-9_.,/@%-]{1,200})"
)
_HOST = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_.-]{0,63}@)?[A-Za-z0-9][A-Za-z0-9_.-]{0,252}")
_COMMAND = re.compile(r"((?:\+|My\.)?[A-Za-z][A-Za-z0-9_]{0,60}) *= *[ -~]{0,1000}(?<!\\)")
_IMAGE = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.:/@-]{0,300}")
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_CONTEXT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/@+-]{0,252}")
_FOLDER = re.compile(r"/[A-Za-z0-9_.,+=@/-]{1,200}")
#: Settings with several lines; the others have one.
_SEVERAL_LINES: Final = ("setup", "pod")
_MAX_CHARS: Final = 20_000
_MAX_LINE_CHARS: Final = 4_096
_MOST_TEXTS: Final = 1_000
_NOTHING: Final = (None, (), "", False)
_TIMES: Final = {"time_limit": 60.0, "least_work": 0.001, "idle_timeout": 1.0}
#: Settings that not all drivers have, and the drivers that have them.
_GO_WITH: Final = {
    "qos": ("slurm",),
    "partition": ("slurm", "pbs"),
    **dict.fromkeys(("account", "options"), ("slurm", "pbs", "htcondor")),
    **dict.fromkeys(("memory", "gpus"), ("slurm", "pbs", "htcondor", "kubernetes")),
    **dict.fromkeys(("image", "namespace", "context", "pod"), ("kubernetes",)),
    **dict.fromkeys(("hosts", "jobs_per_host"), ("ssh",)),
}
#: Drivers whose jobs must get no secret from this machine's environment.
_FAR: Final = ("pbs", "htcondor", "kubernetes", "ssh")
# Options that the job script depends on, as Slurm, PBS and HTCondor spell them.
_OURS: Final = ("job-name", "output", "error", "time", "array", "wrap", "requeue", "parsable")
_OURS_OF_PBS: Final = re.compile(r"-[CIJNSejkorz]|-l (select|walltime)=|(ncpus|mem|ngpus)=")
_OURS_OF_HTCONDOR: Final = {
    "arguments", "batch_name", "encrypt_input_files", "error", "executable", "leave_in_queue",
    "output", "periodic_remove", "queue", "should_transfer_files", "transfer_input_files",
    "transfer_output_files", "universe", "when_to_transfer_output",
}  # fmt: skip
# Fields of a pod that taskq sets itself.
_OURS_OF_A_POD: Final = ("activeDeadlineSeconds", "initContainers", "restartPolicy")


@dataclass(frozen=True)
class PilotSettings:
    """How a pilot's jobs are submitted, and how many.

    cores            to request from the batch system
    slots            of each job's agent, which share what the job has; None: one for each core
    time_limit       of a job, in seconds, a minute at least
    max_jobs         most that may be live: queued or running
    backlog          most that wait in the batch system at a time, while it lets few through
    least_work       work for each slot, in seconds, for which another job is submitted
    idle_timeout     seconds without a task after which an agent leaves
    offers, site     tags that the agents offer in addition to a slot's share of the job, and where
    they
                     say that they are
    gateways         URLs; none: direct agents, on the database that the loop uses
    token_file       a site's token, for gateways; only its owner may read it
    ca               certificates to trust, for gateways
    insecure_http    allow http:// beyond this machine
    folder           of output and, with gateways, of the agent's file; nodes of Slurm and PBS must
                     see it; with ssh, it is on each host; Kubernetes uses none
    python           interpreter on the nodes, with gateways
    setup            lines of a shell, run before the agent: `module load python`
    agent_options    further options of the agent
    partition, qos   Slurm's options of these names; partition: the queue of PBS
    account          Slurm's option of this name, -A of PBS, HTCondor's accounting group
    memory, gpus     of a job, as the batch system spells it
    options          more options of sbatch, such as --constraint=epyc; of qsub, such as `-P
    wisdom`,
                     or resources of PBS's chunk, such as model=bro; lines of HTCondor's submit
                     description
    image, namespace, context
                     for Kubernetes: of the container, of the job, of kubectl
    pod              for Kubernetes, further fields of the pod's specification, as JSON
    hosts            for ssh; jobs_per_host: most at a time on each
    """

    folder: str
    cores: int = 1
    slots: int | None = None
    time_limit: float = 3_600.0
    max_jobs: int = 10
    backlog: int = 2
    least_work: float = 300.0
    idle_timeout: float = 120.0
    offers: tuple[str, ...] = ()
    site: str = ""
    gateways: tuple[str, ...] = ()
    token_file: str | None = None
    ca: str | None = None
    insecure_http: bool = False
    python: str = "python3"
    setup: str = ""
    agent_options: tuple[str, ...] = ()
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    memory: str | None = None
    gpus: str | None = None
    image: str | None = None
    namespace: str | None = None
    context: str | None = None
    pod: str | None = None
    options: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    jobs_per_host: int = 1

    @property
    def slot_count(self) -> int:
        """How many tasks a job's agent works on at a time."""
        return self.slots or self.cores

    @property
    def all_offers(self) -> tuple[str, ...]:
        """Tags of the agents, with what each slot has of the job: cores, memory, GPUs."""
        gpus = re.search(r"\d{1,4}$", self.gpus or "")
        job = Resources(
            count=self.cores,
            memory=_size(self.memory),
            gpus=tuple(map(str, range(int(gpus[0]) if gpus else 0))),
        )
        return with_protocol(offers(job.share(0, self.slot_count), self.offers))

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


def _size(memory: str | None) -> int | None:
    """Return bytes, if batch systems agree on the notation: 64G, 64GB, 64Gi."""
    found = re.fullmatch(r"(\d{1,9}(\.\d{1,3})?[KMGT])(B|i|iB)?", memory or "")
    return size_in_bytes(found[1]) if found else None


def check_name(name: str) -> str:
    """Return a pilot's name if it is well formed; raise `UsageError`."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r:.80} cannot be a pilot's name; use letters, digits and hyphens in lower "
            "case, 40 at most"
        )
    return name


def pilot_settings(driver: str, table: Mapping[str, Any]) -> PilotSettings:
    """Return the settings in a table of a TOML file; raise `UsageError` that names the fault.

    Times are numbers of seconds, or texts such as "12h".
    """
    if driver not in DRIVERS:
        raise UsageError(f"no driver {driver!r:.40}; there are {', '.join(DRIVERS)}")
    known = known_only("pilot", table, [one.name for one in fields(PilotSettings)])
    values = {name: _typed(name, value) for name, value in known.items() if value is not None}
    if "folder" not in values:
        raise UsageError("folder is missing: where the jobs' output goes")
    settings = PilotSettings(**values)
    _check_words(settings)
    _check_lists(driver, settings)
    _check_gateways(settings)
    _check_driver(driver, settings)
    return settings


def _typed(name: str, value: Any) -> Any:
    kind = next(one.type for one in fields(PilotSettings) if one.name == name)
    if name in _TIMES:
        return _time(name, value)
    if kind in ("int", "int | None"):
        most = MAX_CORES if name in ("cores", "slots") else MAX_JOBS
        if type(value) is not int or not 1 <= value <= most:
            raise UsageError(f"{name} is {value!r:.40}; it must be a number from 1 to {most:,}")
        return value
    if kind == "bool":
        if not isinstance(value, bool):
            raise UsageError(f"{name} is {value!r:.40}; it must be true or false")
        return value
    if str(kind).startswith("tuple"):
        if not isinstance(value, (list, tuple)) or len(value) > _MOST_TEXTS:
            raise UsageError(f"{name} must be a list of texts, {_MOST_TEXTS:,} at most")
        return tuple(_text(name, one) for one in value)
    return _text(name, value)


def _text(name: str, value: Any) -> str:
    most = _MAX_CHARS if name in _SEVERAL_LINES else _MAX_LINE_CHARS
    if not isinstance(value, str) or "\0" in value or len(value) > most:
        raise UsageError(
            f"{name} is {value!r:.40}; it must be a text of {most:,} characters at most"
        )
    if name not in _SEVERAL_LINES and not value.isprintable():
        raise UsageError(f"{name} is {value!r:.40}; it must be one line without control characters")
    return value


def _time(name: str, value: Any) -> float:
    try:
        seconds = arguments.seconds_above_0(f"{value}")
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"{name}: {error}") from None
    if not _TIMES[name] <= seconds <= 365 * 86_400:
        raise UsageError(f"{name} is {seconds:g} s; it must be at least {_TIMES[name]:g} s")
    return seconds


def _check_words(settings: PilotSettings) -> None:
    for name, form, what in (
        ("folder", _FOLDER, "an absolute path of letters, digits and ._,+=@-"),
        ("partition", _WORD, "one word"),
        ("account", _WORD, "one word"),
        ("qos", _WORD, "one word"),
        ("memory", _WORD, "one word, as 64G"),
        ("gpus", _WORD, "one word, as a100:2"),
        ("image", _IMAGE, "the name of an image"),
        ("namespace", _LABEL, "the name of a namespace"),
        ("context", _CONTEXT, "the name of a context"),
    ):
        value = getattr(settings, name)
        if value is not None and not form.fullmatch(value):
            raise UsageError(f"{name} is {value!r:.80}; it must be {what}")


def _check_lists(driver: str, settings: PilotSettings) -> None:
    check_offers(settings.offers)
    check = {"htcondor": _check_command, "pbs": _check_pbs_option}.get(driver, _check_option)
    for option in settings.options:
        check(option)
    for host in settings.hosts:
        if not _HOST.fullmatch(host):
            raise UsageError(f"{host!r:.80} is no name of a host, as node7 or me@node7.example.org")


def _check_option(option: str) -> None:
    if not _OPTION.fullmatch(option):
        raise UsageError(f"the option {option!r:.80} must read --name=value, without quotes")
    if option[2:].partition("=")[0] in _OURS:
        raise UsageError(f"the option {option} is set by taskq itself")


def _check_pbs_option(option: str) -> None:
    if not _PBS_OPTION.fullmatch(option):
        raise UsageError(
            f"the option {option!r:.80} must read `-P wisdom`, an option of qsub, or model=bro, a "
            "resource of the chunk"
        )
    if _OURS_OF_PBS.match(option):
        raise UsageError(f"the option {option:.80} is set by taskq itself")


def _check_command(option: str) -> None:
    found = _COMMAND.fullmatch(option)
    if found is None:
        raise UsageError(
            f"the option {option!r:.80} must read NAME = VALUE, one line of a submit description"
        )
    if found[1].lower() in _OURS_OF_HTCONDOR:
        raise UsageError(f"the option {option:.80} is set by taskq itself")


def _check_kubernetes(settings: PilotSettings) -> None:
    if settings.image is None:
        raise UsageError("the driver kubernetes needs the image of a container (--image)")
    if settings.pod is not None:
        _check_pod(settings.pod)
    if settings.memory is not None and not re.fullmatch(r"\d{1,9}[KMGT]i", settings.memory):
        raise UsageError(f"memory is {settings.memory!r:.80}; it must read 512Mi or 64Gi")


def _check_pod(text: str) -> None:
    try:
        pod = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"pod: not JSON: {error}") from None
    if not isinstance(pod, dict):
        raise UsageError("pod must be a JSON object: fields of a pod's specification")
    for name in _OURS_OF_A_POD:
        if name in pod:
            raise UsageError(f"pod.{name} is set by taskq itself")
    containers = pod.get("containers", [{}])
    if not isinstance(containers, list) or len(containers) != 1 or type(containers[0]) is not dict:
        raise UsageError("pod.containers must have one container, that of the agent")
    for holder, name in ((pod, "volumes"), (containers[0], "volumeMounts")):
        if not isinstance(holder.get(name, []), list):
            raise UsageError(f"pod: {name} must be a list")


def _check_gateways(settings: PilotSettings) -> None:
    try:
        for url in settings.gateways:
            arguments.gateway(url)
    except argparse.ArgumentTypeError as error:
        raise UsageError(str(error)) from None
    if settings.gateways and settings.token_file is None:
        raise UsageError("agents show a gateway a site's token: give token_file (--token-file)")
    if not settings.gateways and (settings.token_file or settings.ca or settings.insecure_http):
        raise UsageError("token_file, ca and insecure_http go with gateways: give one (--gateway)")


def _check_driver(driver: str, settings: PilotSettings) -> None:
    plain = {one.name: one.default for one in fields(PilotSettings)}
    for name, drivers in _GO_WITH.items():
        if driver not in drivers and getattr(settings, name) != plain[name]:
            raise UsageError(
                f"{name} goes with the driver {' or '.join(drivers)}, not with {driver}"
            )
    if driver == "ssh" and not settings.hosts:
        raise UsageError("the driver ssh needs hosts (--host)")
    if driver == "kubernetes":
        _check_kubernetes(settings)
    if driver == "pbs" and not re.fullmatch(r"\d{1,4}", settings.gpus or "1"):
        raise UsageError(f"gpus is {settings.gpus!r:.80}; PBS takes a number, of a chunk's ngpus")
    if driver in _FAR and not settings.gateways:
        raise UsageError(
            "agents on other hosts work through a gateway: give its URL (--gateway) and a site's "
            "token (--token-file)"
        )
    if driver == "htcondor":  # a list in its submit description
        for name in ("folder", "token_file", "ca"):
            value = getattr(settings, name)
            if value is not None and (not _FOLDER.fullmatch(value) or "," in value):
                raise UsageError(
                    f"{name} is {value!r:.80}; HTCondor takes letters, digits and ._+=@-"
                )
