"""Containers: run a handler's program in an image, with apptainer, docker or podman.

A runtime is called with a list of arguments, never through a shell. The container contains one
folder that the program may write to (that of the task, with its result and checkpoint; of a program
that stays for many tasks, one for all of them) and, read-only, the campaign's inputs with the links
to them, under the same paths as outside. It contains nothing else of the node. The program runs as
the agent's user.

apptainer's processes are the agent's own. With docker and podman other processes run the
container: it has a name, by which it is removed when the program ends, or by the reaper if the
agent is killed.
"""

from __future__ import annotations

import re
import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from os import getegid, geteuid, urandom
from pathlib import Path
from typing import Dict, Iterator, List, Mapping, Optional, Sequence

from taskq_agent import devices, reaper
from taskq_agent.handlers.base import AttemptOver, Ended, refused
from taskq_agent.handlers.definition import PlaceholderMissing, fill
from taskq_agent.handlers.environment import KindContext
from taskq_agent.paths import exists

OWN_PROCESSES = ("apptainer", "singularity")
RUNTIMES = ("podman", "docker", *OWN_PROCESSES)

#: What makes apptainer show the devices of the node, by the variable that names those of a task.
_OF_DEVICES = {devices.CUDA: "--nv", devices.ROCM: "--rocm"}
#: What services take as the name of a device: no part of a UUID, which is enough for CUDA.
_UUID = re.compile(r"(GPU|MIG)-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_CLIENT_FAILED = 125
_STARTER_FAILED = 255
_FATAL = "FATAL: "
# A path with one of these characters cannot be passed to a runtime.
_UNSPEAKABLE = frozenset(',"\n\\')


@dataclass(frozen=True)
class Container:
    """A call of a runtime; name: of the container to remove, empty if there is none."""

    runtime: str
    argv: List[str]
    env: Dict[str, str]
    name: str = ""

    def begin(self) -> None:
        """Register the container with the reaper, in case this agent is killed."""
        if self.name:
            reaper.shared().add("container", self._entry)

    def remove(self) -> None:
        """Remove the container, whatever state it is in."""
        if self.name:
            reaper.remove_container(self._entry)
            reaper.shared().drop("container", self._entry)

    @property
    def _entry(self) -> str:
        return f"{self.runtime}\0{self.name}"


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
    of the agent's environment. Raises AttemptOver if this node cannot run the campaign.
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
    if image.startswith("/") and not exists(image):
        raise _unusable(f"there is no container {image!r} on this node")
    runtime = _runtime(context.container_runtime, image)
    # Follow no link: a payload can replace those in the one folder that it may write to.
    mounts = {folder: False}
    mounts.update({str(Path(path).parent): True for path in context.inputs.values()})
    mounts.update(dict.fromkeys(context.input_files, True))
    if odd := [path for path in mounts if _UNSPEAKABLE & set(path)]:
        raise _unusable(f"{odd[0]!r} cannot be bound: rename that folder")
    if Path(runtime).name in OWN_PROCESSES:
        return _of_own_processes(runtime, image, [*argv], folder, env, mounts)
    return _of_a_service(context, runtime, image, [*argv], folder, env, mounts)


def of_end(container: Container, code: int, tail: Optional[str]) -> Optional[Ended]:
    """Return the end of an attempt whose runtime has failed; None if the program has ended."""
    last = (tail or "").strip().rpartition("\n")[2]
    if container.name:
        failed = code == _CLIENT_FAILED
    else:
        failed = code == _STARTER_FAILED and last.startswith(_FATAL)
    text = f"{container.runtime}: {last}"
    return refused("container-unusable", text, exit_code=code) if failed else None


def _unusable(text: str) -> AttemptOver:
    return AttemptOver(refused("container-unusable", text))


def _runtime(wanted: Optional[str], image: str) -> str:
    """Return the path of the wanted runtime, or of an installed one that suits the image."""
    is_file = image.startswith("/") or image.endswith(".sif")
    names = OWN_PROCESSES if is_file else RUNTIMES
    found = (shutil.which(name) for name in ([wanted] if wanted else names))
    runtime = next(filter(None, found), None)
    if runtime is None:
        text = f"{wanted or ', '.join(names)}: not found; a container needs it"
        raise _unusable(text)
    return runtime


def _of_own_processes(  # noqa: PLR0917  # it has so many parts
    runtime: str,
    image: str,
    argv: List[str],
    folder: str,
    env: Mapping[str, str],
    mounts: Mapping[str, bool],
) -> Container:
    prefix = f"{Path(runtime).name.upper()}ENV_"
    call = [runtime, "--silent", "exec", "--containall", "--cleanenv", "--no-home"]
    for path, read_only in mounts.items():
        call += ["--mount", f"type=bind,source={path},destination={path}" + ",ro" * read_only]
    call += [flag for variable, flag in _OF_DEVICES.items() if variable in env]
    is_file = image.startswith("/") or image.endswith(".sif") or "://" in image
    call += ["--pwd", folder, image if is_file else f"docker://{image}", *argv]
    return Container(runtime, call, {prefix + name: value for name, value in env.items()})


def _of_a_service(  # noqa: PLR0917  # it has so many parts
    context: KindContext,
    runtime: str,
    image: str,
    argv: List[str],
    folder: str,
    env: Mapping[str, str],
    mounts: Mapping[str, bool],
) -> Container:
    context.watch.meter.elsewhere = True
    name = f"taskq-{urandom(8).hex()}"
    call = [runtime, "run", "--rm", "--interactive", "--name", name, "--workdir", folder]
    call += ["--user", f"{geteuid()}:{getegid()}", "--cap-drop", "all"]
    call += ["--stop-timeout", "0"]  # the grace is over when it is removed
    call += ["--security-opt", "no-new-privileges"]
    if Path(runtime).name == "podman" and geteuid():
        call += ["--userns", "keep-id"]
    if (limit := context.watch.meter.limit) is not None:
        call += ["--memory", str(limit)]
    if context.cores:
        call += ["--cpuset-cpus", ",".join(map(str, context.cores))]
    call += _devices(Path(runtime).name, env)
    for path, read_only in mounts.items():
        call += ["--mount", f"type=bind,source={path},destination={path}" + ",readonly" * read_only]
    for variable in env:  # its value comes from the environment: other users see arguments
        call += ["--env", variable]
    # Run the named program, not the image's entry point.
    return Container(runtime, [*call, "--entrypoint", argv[0], image, *argv[1:]], dict(env), name)


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
