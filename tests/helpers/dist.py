"""Builder of what is published: wheel, source archive, the agent as one file, parts list, SHA-256.

    python -m tests.helpers.dist FOLDER

The last commit is built, the same way everywhere: with the same setuptools and zlib, the
wheel, the source archive and the agent's file are the same bytes (https://reproducible-builds.org).
The list of parts has the versions that are installed on the day of the build.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import Final

from taskq.model.version import VERSION
from taskq.pilots.agent_file import AGENT_FILE
from taskq_agent.release import DISTRIBUTION
from tests.helpers.paths import ROOT

PARTS_LIST: Final = f"{DISTRIBUTION}-{VERSION}.cdx.json"

_UMASK: Final = 0o022  # the modes of files are in the archives


def build(folder: Path) -> None:
    """Build all that depends on the commit alone into folder, which is emptied first."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    git = ["git", "-C", str(ROOT)]
    committed_s = subprocess.check_output([*git, "log", "-1", "--format=%ct"], text=True).strip()
    environ = os.environ | {"SOURCE_DATE_EPOCH": committed_s}
    with tempfile.TemporaryDirectory() as temporary:
        source = Path(temporary) / "source"
        archive = subprocess.check_output([*git, "archive", "--format=tar", "HEAD"])
        with tarfile.open(fileobj=io.BytesIO(archive)) as members:
            members.extractall(source, filter="data")
        subprocess.run(
            [sys.executable, "-m", "build", "--quiet", "--outdir", folder, source],
            check=True,
            env=environ,
            umask=_UMASK,
        )
        subprocess.run(
            [sys.executable, "-m", "taskq.pilots.agent_file", folder.resolve() / AGENT_FILE],
            check=True,
            cwd=source,
            env=environ | {"PYTHONPATH": f"{source}:{source / 'agents'}"},
            stdout=subprocess.DEVNULL,
        )
    (packed,) = folder.glob("*.tar.gz")
    packed.write_bytes(_settled(packed.read_bytes(), int(committed_s)))


def _settled(archive: bytes, time_s: int) -> bytes:
    # setuptools writes the times, users and order of the files that it has just made.
    buffer = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(archive)) as before,
        gzip.GzipFile("", "wb", 9, buffer, mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as after,
    ):
        for member in sorted(before.getmembers(), key=lambda member: member.name):
            member.mtime, member.uid, member.gid = time_s, 0, 0
            member.uname = member.gname = ""
            member.pax_headers = {}
            after.addfile(member, before.extractfile(member) if member.isfile() else None)
    return buffer.getvalue()


def list_parts(python: Path, file: Path) -> None:
    """Write what the environment of python holds, with versions and licences, as CycloneDX."""
    command = [sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible"]
    found = subprocess.check_output([*command, "--sv", "1.6", "--of", "JSON", python])
    parts = json.loads(found)
    for part in parts["components"]:  # where the file lay that was installed says nothing elsewhere
        places = part.get("externalReferences", [])
        part["externalReferences"] = [at for at in places if not at["url"].startswith("file:")]
    file.write_text(json.dumps(parts, indent=1), encoding="utf-8")


def list_parts_of_all(folder: Path) -> None:
    """Write the list of parts of the wheel in folder, installed with all extras."""
    (wheel,) = folder.glob("*.whl")
    with tempfile.TemporaryDirectory() as venv:
        python = Path(venv) / "bin/python"
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        pip: list[Path | str] = [python, "-m", "pip"]
        subprocess.run([*pip, "install", "--quiet", f"{wheel}[all]"], check=True)
        subprocess.run([*pip, "uninstall", "--quiet", "--yes", "pip", "setuptools"], check=True)
        list_parts(python, folder / PARTS_LIST)


def sum_up(folder: Path) -> None:
    """Write SHA256SUMS of all files in folder, which `sha256sum --check` takes."""
    lines = [
        f"{sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
        for path in sorted(folder.iterdir())
        if path.name != "SHA256SUMS"
    ]
    (folder / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    place = Path(sys.argv[1])
    build(place)
    list_parts_of_all(place)
    sum_up(place)
