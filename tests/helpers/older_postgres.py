"""Programs of older major versions of PostgreSQL, where this machine has any."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from taskq.embedded.installation import OLDEST_MAJOR, locate
from taskq.model.errors import ServerUnsuitable
from tests.fixtures.servers import cheapest_folder

#: Made by `make older-postgres`.
BUILT = Path(__file__).parents[2] / "build" / "older-postgres"


def older_programs() -> dict[int, Path]:
    """Return the folder of each older major version that runs here."""
    newest = locate().version
    found = {}
    for folder in (*Path("/usr/lib/postgresql").glob("*/bin"), *BUILT.glob("*/pginstall/bin")):
        try:
            installation = locate(str(folder))
        except ServerUnsuitable:
            continue
        if OLDEST_MAJOR <= installation.version < newest:
            found[installation.version] = folder
    return found


@contextmanager
def readable(programs: Path) -> Iterator[Path]:
    """Give a folder of programs that every user of this machine can run: a copy of one in build/.

    The checkout may lie in a home that is closed to the user whose servers these are.
    """
    if BUILT not in programs.parents:
        yield programs
        return
    copy = Path(tempfile.mkdtemp(prefix="taskq-older-", dir=cheapest_folder()))
    try:
        package = programs.parents[1]
        for source in (package, package.with_name(f"{package.name}.libs")):
            if source.is_dir():
                shutil.copytree(source, copy / source.name, symlinks=True)
        copy.chmod(0o755)
        yield copy / programs.relative_to(package.parent)
    finally:
        shutil.rmtree(copy)


def number(version_text: str) -> int:
    """Return the major version in a text such as 15.14 (Debian)."""
    found = re.match(r"\d+", version_text)
    assert found is not None
    return int(found[0])
