"""Builder of the agent's single file: a zip archive with a `#!` line, for Python 3.9 and later.

    python -m taskq.pilots.agent_file dist/taskq-agent.pyz

The build is reproducible: the same sources and zlib give the same bytes on every host. So the
maker of a token can compute the SHA-256 of the file that a gateway of the same release serves.
"""

from __future__ import annotations

import hashlib
import io
import sys
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import taskq_agent
from taskq.model.version import VERSION
from taskq_agent.release import DISTRIBUTION

AGENT_FILE: Final = "taskq-agent.pyz"

_FIRST_LINE: Final = b"#!/usr/bin/env python3\n"
_TIME: Final = (1980, 1, 1, 0, 0, 0)  # the earliest time that an archive can hold
_MODE: Final = 0o100644 << 16

# Valid in every Python: an unsupported version must be able to print its error.
_MAIN: Final = """\
import sys

if sys.version_info < (3, 9):
    sys.exit("taskq-agent needs Python 3.9 or later, this is " + sys.version.split()[0])

import taskq_agent_import_path

taskq_agent_import_path.put_own_first()

import taskq_agent_bytecode

sys.path[0] = taskq_agent_bytecode.importable(sys.path[0])

from taskq_agent.__main__ import main

sys.exit(main())
"""

# They run before the package is imported.
_FIRST: Final = ("bytecode.py", "import_path.py")

# Where importlib.metadata looks for the release.
_METADATA: Final = f"Metadata-Version: 2.1\nName: {DISTRIBUTION}\nVersion: {VERSION}\n"


def build() -> bytes:
    """Return the bytes of the file."""
    buffer = io.BytesIO()
    buffer.write(_FIRST_LINE)
    with zipfile.ZipFile(buffer, "a", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in sorted(_members()):
            entry = zipfile.ZipInfo(name, _TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3  # Unix, wherever it is built
            entry.external_attr = _MODE
            archive.writestr(entry, data)
    return buffer.getvalue()


#: The result of `build`, made once in this process since it takes a moment.
built: Final = cache(build)


def checksum_line() -> str:
    """Return the line with the file's SHA-256 that `sha256sum --check` takes."""
    return f"{hashlib.sha256(built()).hexdigest()}  {AGENT_FILE}"


def _members() -> Iterator[tuple[str, bytes]]:
    yield "__main__.py", _MAIN.encode()
    yield f"{DISTRIBUTION.replace('-', '_')}-{VERSION}.dist-info/METADATA", _METADATA.encode()
    package = Path(taskq_agent.__file__).parent
    for path in package.rglob("*.py"):
        name = path.relative_to(package).as_posix()
        if name in _FIRST:
            yield f"taskq_agent_{name}", path.read_bytes()
        if name != "bytecode.py":
            yield f"taskq_agent/{name}", path.read_bytes()


def main() -> None:
    """Write the file named on the command line."""
    path = Path(sys.argv[1])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(build())
    path.chmod(0o755)
    sys.stdout.write(f"{path}: {path.stat().st_size} bytes\n")


if __name__ == "__main__":
    main()
