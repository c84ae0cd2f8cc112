"""Runs tests on a copy of the project in which a bug may have been seeded.

The copy has what git knows of the project, as it is in the working tree, and an environment of its
own, which finds the copy's packages and all others where ours are. So whatever the tests start, be
it by the path of the interpreter or of a command, is the copy.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import venv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.fixtures.servers import cheapest_folder, remove_home
from tests.helpers.paths import ROOT
from tests.mutants.mutant import Mutant
from tests.mutants.witness import VARIABLE

#: The tests here would find out by looking at the text.
_HERE: Final = "tests/mutants"
_FAILED: Final = 1
_GRACE_S: Final = 60.0
_COMMAND: Final = "#!{python}\nimport sys\nfrom {module} import main\nsys.exit(main())\n"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended. killer: the test that failed; trouble: why the run says nothing."""

    killer: str | None = None
    trouble: str | None = None


def tracked() -> list[str]:
    """Return the files of the project that git knows."""
    said = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    names = said.stdout.decode().split("\0")
    return [name for name in names if name and (ROOT / name).is_file()]


@contextmanager
def copied(files: Sequence[str], mutant: Mutant | None = None) -> Iterator[Path]:
    """Give a copy of the project, with a bug if there is one to be seeded; remove it afterwards."""
    place = cheapest_folder()  # of the servers too
    with tempfile.TemporaryDirectory(prefix="taskq-mutant-", dir=place) as folder:
        root = Path(folder) / "copy"
        for name in files:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, root / name)
        # As setup.cfg maps it.
        (root / "taskq/sql").symlink_to("../sql")
        if mutant is not None:
            (root / mutant.file).write_text(mutant.seeded(root))
        _make_environment(root)
        (root / "tmp").mkdir()
        # The servers of root's tests run as another user, who must get there.
        for reached in (Path(folder), root, root / "tmp"):
            reached.chmod(0o755)
        try:
            yield root
        finally:
            for home in (root / "tmp").glob("taskq-tests-*"):
                remove_home(home)


def tried(root: Path, tests: Sequence[str], timeout_s: float) -> Outcome:
    """Run tests in a copy until one fails."""
    witness = root / "witness.json"
    words = [
        *(str(root / ".venv/bin/python"), "-m", "pytest", "-x", "-q", "--tb=no"),
        *("-p", "no:randomly", "-p", "no:cacheprovider", "-p", "tests.mutants.witness"),
        *(f"--ignore={_HERE}", *tests),
    ]
    variables = {"TMPDIR": str(root / "tmp"), VARIABLE: str(witness)}
    with subprocess.Popen(
        words,
        cwd=root,
        env=os.environ | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as run:
        try:
            said, _ = run.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            # First so that it can clean up.
            for end in (signal.SIGINT, signal.SIGKILL):
                with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
                    os.killpg(run.pid, end)
                    run.wait(_GRACE_S)
            return Outcome(trouble=f"no end within {timeout_s:g} s")
    if run.returncode == 0:
        return Outcome()
    if run.returncode != _FAILED or not witness.exists():
        return Outcome(trouble=f"pytest ends with {run.returncode}: {said.strip()[-300:]}")
    failure = json.loads(witness.read_text())
    if failure["when"] == "setup":
        return Outcome(trouble=f"{failure['test']} could not begin")
    return Outcome(killer=failure["test"])


def _make_environment(root: Path) -> None:
    """Make an environment in which the copy is what is installed."""
    venv.EnvBuilder(symlinks=True).create(root / ".venv")
    packages = root / ".venv" / Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)
    ours = [root, root / "agents", root / "cli", sysconfig.get_path("purelib")]
    (packages / "copy.pth").write_text("".join(f"{path}\n" for path in ours))
    python = root / ".venv/bin/python"
    for name, module in (("taskq", "taskq_cli.main"), ("taskq-agent", "taskq_agent.__main__")):
        command = root / ".venv/bin" / name
        command.write_text(_COMMAND.format(python=python, module=module))
        command.chmod(0o755)
