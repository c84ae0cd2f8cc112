"""Tables of settings, checked, and pilot files: TOML files with such a table for each pilot.

[pilots.hpc]
driver = "slurm"
campaign = "/wisdom"
cores = 32                    # these and the other keys: see taskq.pilots.settings.PilotSettings
time_limit = "12h"
max_jobs = 200
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from taskq.model.errors import NotFound, UsageError
from taskq.model.requirements import check_offers
from taskq.model.seed import check_path
from taskq.model.settings import TIME
from taskq.model.table_checks import known_only
from taskq.pilots.settings import (
    DRIVERS,
    FOLDER_FORM,
    SETTINGS,
    PilotSettings,
    filled,
    of_form,
)
from taskq_agent import arguments
from taskq_agent.named_resources import checked_name, counted, named_amount

MAX_FILE_BYTES: Final = 1_048_576

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
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
_COMMAND = re.compile(r"(\+|My\.)?[A-Za-z][A-Za-z0-9_]{0,60} *= *[ -~]{0,1000}(?<!\\)")
#: Drivers whose jobs must get no secret from this machine's environment.
_FAR: Final = ("pbs", "htcondor", "kubernetes", "ssh")
#: Drivers with `options`: the form of these, as a pattern and in words, and those that taskq sets.
_OPTIONS: Final = {
    "slurm": (
        _OPTION,
        "--name=value, without quotes",
        re.compile("--(job-name|output|error|time|array|nodes|ntasks|wrap|requeue|parsable)(=|$)"),
    ),
    "pbs": (
        _PBS_OPTION,
        "`-P wisdom`, an option of qsub, or model=bro, a resource of the chunk",
        re.compile(r"-[CIJNSejkorz]|-l (select|walltime)=|(ncpus|mem|ngpus)="),
    ),
    "htcondor": (
        _COMMAND,
        "NAME = VALUE, one line of a submit description",
        re.compile(
            "(arguments|batch_name|encrypt_input_files|error|executable|leave_in_queue|output"
            "|periodic_remove|queue|should_transfer_files|transfer_input_files"
            "|transfer_output_files|universe|when_to_transfer_output) *=",
            re.IGNORECASE,
        ),
    ),
}
_check_host: Final = of_form(_HOST, "names of hosts, such as node7 or me@node7.example.org")


@dataclass(frozen=True, slots=True)
class DescribedPilot:
    """A pilot as its file describes it."""

    name: str
    driver: str
    path: str
    settings: PilotSettings


def read_pilot_file(file: Path, *, folder: Path) -> list[DescribedPilot]:
    """Return the pilots in a file, in its order.

    folder: a pilot NAME without a folder gets `folder/NAME`. Raise `NotFound` if there is no such
    file, `UsageError`, which names the fault in it.
    """
    if sys.version_info >= (3, 11):  # here, since every program that connects imports this file
        import tomllib  # noqa: PLC0415
    else:
        import tomli as tomllib  # noqa: PLC0415
    try:
        data = file.read_bytes()[: MAX_FILE_BYTES + 1]
    except OSError as error:
        raise NotFound(f"{file}: {error.strerror}") from None
    if len(data) > MAX_FILE_BYTES:
        raise UsageError(f"{file}: more than {MAX_FILE_BYTES:,} bytes")
    try:
        content = tomllib.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{file}: not TOML: {error}") from None
    tables = content.pop("pilots", None)
    if content or not isinstance(tables, dict) or not tables:
        raise UsageError(f"{file}: it must have tables [pilots.NAME], and nothing else")
    return [_described(file, name, table, folder) for name, table in tables.items()]


def _described(file: Path, name: str, table: Any, folder: Path) -> DescribedPilot:
    rest = dict(table) if isinstance(table, dict) else {}
    driver, path = rest.pop("driver", None), rest.pop("campaign", None)
    if not isinstance(driver, str) or not isinstance(path, str):
        raise UsageError(f"{file}: [pilots.{name}]: driver and campaign are needed, as texts")
    rest.setdefault("folder", f"{folder}/{name}")
    try:
        return DescribedPilot(
            check_name(name), driver, check_path(path), pilot_settings(driver, rest)
        )
    except UsageError as error:
        raise UsageError(f"{file}: [pilots.{name}]: {error}") from None


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
    known = known_only("pilot", table, SETTINGS)
    values = {name: _typed(name, value) for name, value in known.items() if value is not None}
    if "folder" not in values:
        raise UsageError("folder is missing: where the jobs' output goes")
    made = PilotSettings(**values)
    check_offers(made.offers)
    for host in made.hosts:
        _check_host("hosts", host)
    for option in made.options:
        _check_option(driver, option)
    _check_resources(driver, made)
    _check_gateways(made)
    _check_driver(driver, made)
    return made


def _typed(name: str, value: Any) -> Any:
    setting = SETTINGS[name]
    if setting.kind is TIME and isinstance(value, str):
        try:
            value = setting.parsed(value)
        except ValueError:
            raise UsageError(f"{name} is {value!r:.40}; it must be {TIME.form}") from None
    return setting.checked(value)


def _check_option(driver: str, option: str) -> None:
    form, words, ours = _OPTIONS.get(driver, _OPTIONS["slurm"])
    if not form.fullmatch(option):
        raise UsageError(f"the option {option!r:.80} must read {words}")
    if ours.match(option):
        raise UsageError(f"the option {option:.80} is set by taskq itself")


def _check_resources(driver: str, settings: PilotSettings) -> None:
    try:
        counted(map(named_amount, settings.resources))
    except ValueError as error:
        raise UsageError(f"resources: {error}") from None
    for text in settings.resource_options:
        name, _, option = text.partition("=")
        some = filled(option, 1)
        try:
            checked_name(name)
        except ValueError as error:
            raise UsageError(f"resource_options: {error}") from None
        if some == option:
            units = "{}, {KiB}, {MiB} or {GiB}"
            raise UsageError(f"resource_options: {text!r:.80} has no amount in it: {units}")
        _check_option(driver, some)


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
    for name in ("activeDeadlineSeconds", "initContainers", "restartPolicy"):
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
    for name, setting in SETTINGS.items():
        if (
            setting.drivers
            and driver not in setting.drivers
            and getattr(settings, name) != setting.default
        ):
            raise UsageError(
                f"{name} goes with the driver {' or '.join(setting.drivers)}, not with {driver}"
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
            if value is not None and (not FOLDER_FORM.fullmatch(value) or "," in value):
                raise UsageError(
                    f"{name} is {value!r:.80}; HTCondor takes letters, digits and ._+=@-"
                )
