"""Stand-ins for the runtimes of containers: each records how it was called, runs the program."""

from __future__ import annotations

import json
import re
import shutil
import stat
import sys
from pathlib import Path
from typing import Any

IMAGE = "vina:1.2"
_COMMANDS = ("cat", "env", "ln", "ls", "rm", "sh", "sleep", "touch")
_STAND_IN = f"""#!{sys.executable}
import json, os, sys
words = sys.argv[1:]
files = dict(zip(words, words[1:]))
read = open(files["--env-file"]).read() if "--env-file" in files else ""
with open(__file__ + ".log", "a") as log:
    log.write(json.dumps([words, dict(os.environ), read]) + "\\n")
if "rm" in words[:2]:
    sys.exit(0)
place = next(n for n, word in enumerate(words) if "vina" in word or "gone" in word)
if words[place].startswith("--location="):
    place += 1
if "gone" in words[place]:
    print("FATAL:   could not open image" if "exec" in words else "no such image", file=sys.stderr)
    sys.exit(255 if "exec" in words else 125)
program = words[place + 1:]
if "--entrypoint" in words:
    program = [words[words.index("--entrypoint") + 1], *program]
env = dict(os.environ)
env.update(line.split("=", 1) for line in read.splitlines())
for name, value in os.environ.items():
    env[name.partition("ENV_")[2] if name.startswith("APPTAINERENV_") else name] = value
os.execvpe(program[0], program, env)
"""


def folder_of_runtimes(parent: Path) -> Path:
    """Make a folder with what programs of tests need, for PATH; runtimes can be installed in it."""
    folder = parent / "runtimes"
    folder.mkdir()
    for name in _COMMANDS:
        (folder / name).symlink_to(str(shutil.which(name)))
    return folder


def install(folder: Path, name: str) -> Path:
    """Put a stand-in there; return its log."""
    program = folder / name
    program.write_text(_STAND_IN)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return folder / f"{name}.log"


def calls(log: Path) -> list[tuple[list[str], dict[str, str]]]:
    """Return how a stand-in was called: arguments, environment."""
    return [(words, env) for words, env, _ in map(json.loads, log.read_text().splitlines())]


def files_read(log: Path) -> list[str]:
    """Return the files of variables that a stand-in was given."""
    return [read for _, _, read in map(json.loads, log.read_text().splitlines())]


def mounts_of(words: list[str]) -> dict[str, str]:
    """Return what a call binds, each at its own path, with what comes after that."""
    found = (re.fullmatch(r"type=bind,source=(.*),destination=\1(,.*)?", word) for word in words)
    return {mount[1]: mount[2] or "" for mount in found if mount is not None}


def boxed(*argv: str, image: str = IMAGE, kind: str = "command", **more: Any) -> dict[str, Any]:
    """Return a handler that runs a program in an image."""
    return {"kind": kind, "argv": list(argv), "container": image, **more}
