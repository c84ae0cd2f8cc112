"""Containers: run a handler's program in an image, with apptainer, docker, podman or udocker.

A runtime is called with a list of arguments, never through a shell. The container contains one
folder that the program may write to (that of the task, with its result and checkpoint; of a program
that stays for many tasks, one for all of them) and, read-only, the campaign's inputs with the links
to them, under the same paths as outside; and what the site binds, or lets the campaign bind. It
contains nothing else of the node. The program runs as the agent's user.

What a campaign sets in the program's environment, a runtime must not obey itself: it could bind
more. And no value stands in arguments, which all users of the node can read. apptainer takes
variables with a prefix; docker and podman read those of the campaign from a file in the agent's
memory, and all others, by name, from their own environment.

The processes of apptainer and udocker are the agent's own. With docker and podman other processes
run the container. These have a name, as have udocker's copies of images, by which they are removed
when the program ends, or by the reaper if the agent is killed.

udocker isolates nothing: it translates paths. It is used only if the agent names it.
"""

from __future__ import annotations

import os
import re
import shutil
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from os import getegid, geteuid, urandom
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from taskq_agent import automounts, binds, devices, reaper
from taskq_agent.binds import UNSPEAKABLE, Bind
from taskq_agent.handlers.base import AttemptOver, Ended, refused
from taskq_agent.handlers.binding import BindUnavailable, resolved
from taskq_agent.handlers.definition import PlaceholderMissing, fill
from taskq_agent.handlers.environment import KindContext
from taskq_agent.paths import exists, is_dir

OWN_PROCESSES = ("apptainer", "singularity")
SERVICES = ("podman", "docker")
UDOCKER = "udocker"
RUNTIMES = (*SERVICES, *OWN_PROCESSES)
#: Those that run an image in a file, and in a folder.
OF_FILES = OWN_PROCESSES
OF_FOLDERS = (*OWN_PROCESSES, "podman", UDOCKER)

#: What makes apptainer show the devices of the node, by the variable that names those of a task.
_OF_DEVICES = {devices.CUDA: "--nv", devices.ROCM: "--rocm"}
#: What services take as the name of a device: no part of a UUID, which is enough for CUDA.
_UUID = re.compile(r"(GPU|MIG)-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_CLIENT_FAILED = 125
_STARTER_FAILED = 255
_FATAL = "FATAL: "
#: What udocker says if it starts no program; its exit codes are those of programs too.
_UDOCKER_FAILED = re.compile(
    "Error: (command not found or has no execute bit|image or container not available|must specify "
    "image:tag|invalid (host|container) volume|invalid working directory|creating mountpoint|"
    "no execution engine|invalid container name|user not found|proot executable not found)"
)
#: Variables that udocker, a program of Python, or its PRoot would obey.
_STEERS_UDOCKER = re.compile(
    "(LD|PYTHON|UDOCKER|PROOT|GLIBC)_?.*|PATH|HOME|TERM|LANG|LC_.*|IFS|ENV|BASH_ENV|GCONV_PATH"
)
_DOCKER = "docker://"
_TAG_BEFORE_DIGEST = re.compile(r":[^:/@]+(?=@)")


@dataclass(frozen=True)
class Container:
    """A call of a runtime; name: of the container to remove, empty if there is none.

    is_client: whether other processes than the runtime's run the program. memory: of the file with
    variables.
    """

    runtime: str
    argv: List[str]
    env: Dict[str, str]
    name: str = ""
    is_client: bool = False
    memory: Optional[int] = None

    def begin(self) -> None:
        """Register the container with the reaper, in case this agent is killed."""
        if self.name:
            reaper.shared().add("container", self._entry)

    def remove(self) -> None:
        """Remove the container, whatever state it is in."""
        if self.memory is not None:
            with suppress(OSError):
                os.close(self.memory)
        if self.name:
            reaper.remove_container(self._entry)
            reaper.shared().drop("container", self._entry)

    @property
    def _entry(self) -> str:
        return f"{self.runtime}\0{self.name}"


@dataclass(frozen=True)
class _Call:
    """What a container is made of. env: all its variables, without those of the campaign."""

    context: KindContext
    runtime: str
    image: str
    argv: List[str]
    folder: str
    env: Mapping[str, str]
    mounts: Sequence[Bind]


@contextmanager
def removed(container: Optional[Container]) -> Iterator[None]:
    """Remove a container, if there is one, after the block."""
    if container is None:
        yield
        return
    container.begin()
    try:
        yield
    finally:
        container.remove()


def contained(
    context: KindContext, argv: Sequence[str], folder: str, env: Mapping[str, str]
) -> Optional[Container]:
    """Return the call that runs a program in the campaign's image; None if it has none.

    folder: its working folder, the one that it may write to. env: its variables, apart from those
    of the agent's environment and of the campaign. Raises AttemptOver if this node cannot run the
    campaign.
    """
    handler = context.campaign.handler
    context.watch.meter.elsewhere = False
    if "container" not in handler:
        return None
    try:
        (image,) = fill(
            [handler["container"]], params=context.campaign.params, inputs=context.inputs
        )
    except PlaceholderMissing as error:
        raise _unusable(f"the container: {error}") from None
    image = image.removeprefix(_DOCKER)
    if image.startswith("/") and not exists(image):
        raise _unusable(f"there is no container {image!r} on this node")
    runtime = _runtime(context.settings.container_runtime, image)
    mounts = _mounts(context, folder)
    call = _Call(context, runtime, image, [*argv], folder, env, mounts)
    return _MAKERS.get(Path(runtime).name, _of_a_service)(call)


def of_end(container: Container, code: int, tail: Optional[str]) -> Optional[Ended]:
    """Return the end of an attempt whose runtime has failed; None if the program has ended."""
    last = (tail or "").strip().rpartition("\n")[2]
    if container.is_client:
        failed = code == _CLIENT_FAILED
    elif Path(container.runtime).name == UDOCKER:
        failed = code != 0 and _UDOCKER_FAILED.match(last) is not None
    else:
        failed = code == _STARTER_FAILED and last.startswith(_FATAL)
    text = f"{container.runtime}: {last}"
    return refused("container-unusable", text, exit_code=code) if failed else None


def _unusable(text: str) -> AttemptOver:
    return AttemptOver(refused("container-unusable", text))


def _runtime(wanted: Optional[str], image: str) -> str:
    """Return the path of the wanted runtime, or of an installed one that suits the image."""
    names: Tuple[str, ...] = (*RUNTIMES, UDOCKER)
    if image.startswith("/") and is_dir(image):
        names = OF_FOLDERS
    elif image.startswith("/") or image.endswith(".sif"):
        names = OF_FILES
    elif "://" in image:  # another kind of registry, which only these know
        names = (*OWN_PROCESSES, "podman")
    if wanted is not None and Path(wanted).name in {*RUNTIMES, UDOCKER} - {*names}:
        raise _unusable(f"{wanted} cannot run {image!r}; {', '.join(names)} can")
    usual = [name for name in names if name != UDOCKER]
    found = (shutil.which(name) for name in ([wanted] if wanted else usual))
    runtime = next(filter(None, found), None)
    if runtime is None:
        text = f"{wanted or ', '.join(usual)}: not found; a container needs it"
        raise _unusable(text)
    return runtime


def _mounts(context: KindContext, folder: str) -> List[Bind]:
    """Return what the container sees, the outer folders before those within them."""
    handler, settings = context.campaign.handler, context.settings
    wanted = map(binds.of_campaign, handler.get("binds") or ())
    try:
        found = resolved(wanted, settings.binds, settings.allow_binds)
    except BindUnavailable as error:
        raise AttemptOver(refused("bind-unavailable", str(error))) from None
    # Follow no link: a payload can replace those in the one folder that it may write to.
    own = {folder: False}
    own.update({str(Path(path).parent): True for path in context.inputs.values()})
    own.update(dict.fromkeys(context.input_files, True))
    there = automounts.mounts()
    for inside, bind in found.items():
        real = os.path.realpath(bind.host)
        found[inside] = replace(bind, receives=automounts.receives(real, there))
    if odd := [path for path in own if UNSPEAKABLE & set(path)]:
        raise _unusable(f"{odd[0]!r} cannot be bound: rename that folder")
    found.update({path: Bind(path, path, read_only) for path, read_only in own.items()})
    return [found[inside] for inside in sorted(found, key=lambda path: path.split("/"))]


def _of_own_processes(call: _Call) -> Container:
    prefix = f"{Path(call.runtime).name.upper()}ENV_"
    words = [call.runtime, "--silent", "exec", "--containall", "--cleanenv", "--no-home"]
    for bind in call.mounts:
        words += ["--mount", _mount(bind, ",ro")]
    words += [flag for variable, flag in _OF_DEVICES.items() if variable in call.env]
    image = call.image
    if not (image.startswith("/") or image.endswith(".sif") or "://" in image):
        image = _DOCKER + _TAG_BEFORE_DIGEST.sub("", image)
    words += ["--pwd", call.folder, image, *call.argv]
    env = {**call.env, **call.context.given_env}
    named = {prefix + name: value for name, value in env.items()}
    return Container(call.runtime, words, named)


def _mount(bind: Bind, read_only: str) -> str:
    return f"type=bind,source={bind.host},destination={bind.inside}" + read_only * bind.read_only


def _of_a_service(call: _Call) -> Container:
    context, env = call.context, call.env
    context.watch.meter.elsewhere = True
    kind = Path(call.runtime).name
    name = f"taskq-{urandom(8).hex()}"
    words = [call.runtime, "run", "--rm", "--interactive", "--name", name]
    words += ["--workdir", call.folder]
    words += ["--user", f"{geteuid()}:{getegid()}", "--cap-drop", "all"]
    words += ["--stop-timeout", "0"]  # the grace is over when it is removed
    words += ["--security-opt", "no-new-privileges"]
    if kind == "podman" and geteuid():
        words += ["--userns", "keep-id"]
    if (limit := context.watch.meter.limit) is not None:
        words += ["--memory", str(limit)]
    if context.cores:
        words += ["--cpuset-cpus", ",".join(map(str, context.cores))]
    words += _devices(kind, env)
    for bind in call.mounts:
        received = ",bind-propagation=rslave" * bind.receives
        words += ["--mount", _mount(bind, ",readonly") + received]
    for variable in env:  # its value comes from the environment: other users see arguments
        words += ["--env", variable]
    memory = _in_memory(context.given_env) if context.given_env else None
    if memory is not None:
        words += ["--env-file", f"/proc/{os.getpid()}/fd/{memory}"]
    # Run the named program, not the image's entry point.
    words += ["--entrypoint", call.argv[0]]
    # What is written to an image in a folder is thrown away, as that of other images.
    words += ["--rootfs", f"{call.image}:O"] if call.image.startswith("/") else [call.image]
    words += call.argv[1:]
    own = dict(env)
    return Container(call.runtime, words, own, name, is_client=True, memory=memory)


def _in_memory(env: Mapping[str, str]) -> int:
    """Return a file of variables that is on no disk, and gone when this process ends."""
    file = os.memfd_create("taskq-variables")
    with open(file, "w", encoding="utf-8", errors="surrogateescape", closefd=False) as stream:
        stream.writelines(f"{name}={value}\n" for name, value in env.items())
    return file


def _of_udocker(call: _Call) -> Container:
    env = {**call.env, **call.context.given_env}
    if odd := list(filter(_STEERS_UDOCKER.fullmatch, call.context.given_env)):
        raise _unusable(f"udocker itself would obey {odd[0]}, which the campaign sets")
    if odd := [bind.host for bind in call.mounts if ":" in bind.host + bind.inside]:
        raise _unusable(f"udocker cannot bind {odd[0]!r}, which has a colon in it")
    words = [call.runtime, *["--allow-root"] * (not geteuid()), "-q", "run", "--nobanner"]
    words += ["--entrypoint=", f"--user={geteuid()}:{getegid()}", f"--workdir={call.folder}"]
    words += [f"--volume={bind.host}:{bind.inside}" for bind in call.mounts]
    words += [f"--env={variable}" for variable in env]
    if call.image.startswith("/"):
        return Container(
            call.runtime, [*words, f"--location={call.image}", "folder", *call.argv], env
        )
    name = f"taskq-{urandom(8).hex()}"
    image = _TAG_BEFORE_DIGEST.sub("", call.image)
    words += ["--rm", f"--name={name}", image, *call.argv]
    return Container(call.runtime, words, env, name)


_MAKERS: Dict[str, Callable[[_Call], Container]] = {
    UDOCKER: _of_udocker,
    **dict.fromkeys(OWN_PROCESSES, _of_own_processes),
}


def _devices(runtime: str, env: Mapping[str, str]) -> List[str]:
    """Return the options of a service for the devices in the variables of a program.

    A container that has some of the devices gives them new numbers, but not new UUIDs. So it has
    all of them, and the variable chooses, unless the variable holds whole UUIDs only.
    """
    if devices.ROCM in env:
        return ["--device", "/dev/kfd", "--device", "/dev/dri"]
    if devices.CUDA not in env:
        return []
    names = list(filter(None, env[devices.CUDA].split(",")))
    if not names or not all(map(_UUID.fullmatch, names)):
        names = ["all"]
    if runtime == "podman":  # by the names of CDI
        return [word for name in names for word in ("--device", f"nvidia.com/gpu={name}")]
    return ["--gpus", "all" if names == ["all"] else f'"device={",".join(names)}"']
