"""Causes in what an agent itself needs: certificates, folders, and the limits of its account."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

import trustme

from tests.drill.drawn.case import Problem, cause
from tests.drill.drawn.farm import Farm
from tests.drill.drawn.forms import ALWAYS, CHANCE, PAIR, SIZE, Form
from tests.drill.drawn.symptoms import AWAY, FAILS, LIBRARY
from tests.drill.stage import Host

_CLEANED_S: Final = 2.0
_FEW_FILES: Final = "-n 16"
_NO_FILES: Final = "-f 0"
_TOO_LARGE: Final = "File too large|EFBIG|SIGXFSZ|exit-153|spool|scratch"
_FOLDER: Final = "No such file|Not a directory|scratch|spool|FileNotFound|NotADirectory"


@cause("agent")
def agent(farm: Farm, form: Form, chance: random.Random) -> Problem:
    """Let the agent of a host lack what it needs."""
    host = farm.take_host()
    if form.name == ALWAYS:
        return chance.choice((_distrusts, _has_few_files))(farm, host)
    if form.name == SIZE:
        problem = _limited(host, _NO_FILES, "File too large|EFBIG|SIGXFSZ|exit-153|spool|scratch")
        problem.shows = FAILS
        return problem
    if form.name == PAIR:
        return chance.choice((_not_executable, _namesakes))(farm, host)
    return _folder_goes(farm, host, form)


def _limited(host: Host, limits: str, words: str) -> Problem:
    return Problem(
        f"host {host.name}: its agent has `ulimit {limits}`",
        (host.name, host.site),
        words,
        AWAY,
        {host.name, host.site},
        before=partial(host.start, limits=limits),
        mend=host.restart,
    )


def _has_few_files(_: Farm, host: Host) -> Problem:
    return _limited(host, _FEW_FILES, "Too many open files|EMFILE|descriptors|open files|ulimit")


def _distrusts(farm: Farm, host: Host) -> Problem:
    """Let all agents of a site trust another authority: they can send nothing to the queue."""
    hosts, site = farm.hosts_of(host.site), host.site
    other = farm.stage.folder / "other.pem"
    trustme.CA().cert_pem.write_to_path(str(other))

    def begin() -> None:
        for its in hosts:
            its.start("--ca", str(other), again=True)

    def mend() -> None:
        for its in hosts:
            its.restart()

    names = {site, *(its.name for its in hosts)}
    return Problem(
        f"site {site}: its agents do not trust the gateway",
        (*sorted(names),),
        "never|no agent has come|certificate",
        AWAY,
        names,
        before=begin,
        mend=mend,
    )


def _folder_goes(farm: Farm, host: Host, form: Form) -> Problem:
    """Let somebody clean the folder in which tasks work, all of it or now and then."""
    ends = []

    def clean() -> None:
        for path in host.scratch.glob("*"):
            shutil.rmtree(path, ignore_errors=True)

    def strike() -> None:
        if form.name == CHANCE:
            ends.append(farm.every(_CLEANED_S, clean))
        else:
            shutil.rmtree(host.scratch, ignore_errors=True)
            host.scratch.write_text("a mount that is not there")

    def mend() -> None:
        for end in ends:
            end()
        with suppress(OSError):
            host.scratch.unlink()
        host.scratch.mkdir(exist_ok=True)

    return Problem(
        f"host {host.name}: its scratch {'is cleaned' if form.name == CHANCE else 'is gone'}",
        (host.name,),
        _FOLDER,
        FAILS,
        {host.name},
        strike=strike,
        mend=mend,
    )


def _not_executable(farm: Farm, host: Host) -> Problem:
    """Let the program of one campaign be without the mode to execute it on a host."""
    file = host.home / "bin" / "pose"
    path = farm.campaigns[1]
    farm.spoiled.add(path)
    return Problem(
        f"host {host.name} x {path}: its program cannot be executed",
        (host.name,),
        "executable|Permission|not found",
        AWAY,
        {host.name, path},
        path,
        before=partial(file.chmod, 0o644),
        mend=partial(file.chmod, 0o755),
    )


def _namesakes(farm: Farm, host: Host) -> Problem:
    """Let a host that fails call itself as a healthy one of another site does."""
    twin = farm.take_host()
    own, host.name = host.name, twin.name
    ends: list[Callable[[], None]] = []

    def begin() -> None:
        ends.append(farm.trouble([host], LIBRARY.shell))

    return Problem(
        f"host {twin.name}: that of site {host.site} fails, that of site {twin.site} does not",
        (host.site,),
        LIBRARY.words,
        FAILS,
        {own, host.site},
        before=begin,
        mend=lambda: [end() for end in ends],
    )
