"""Batch docking with the real AutoDock Vina, as the manual says: planted ligands are named."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from taskq import Client
from tests.helpers.command_line import CommandLine
from tests.helpers.paths import ROOT
from tests.helpers.tutorial import section_of

PATH = "/demo/batch-docking"
GOOD = [
    *("CCO", "CCN", "CCC(=O)O", "c1ccccc1", "c1ccccc1O", "CC(=O)N", "OCC(O)CO", "CCS"),
    *("c1ccncc1", "CC(C)O", "NCC(=O)O", "CCOC", "C1CCOC1", "CC#N", "Cc1ccccc1"),
]
#: Killed by the program below as by its own fault: no input is known that breaks this Vina so.
FATAL = {"C1CC1": "SEGV", "CCCl": "KILL"}
BAD = {
    "C(C)(C)(C)(C)C": "the ligand cannot be prepared",
    "C[Se]C": "the ligand cannot be prepared",
    "CCB(O)O": "Vina has ended with 1 at this ligand",
}
VINA = """#!{python}
import os, signal, sys
files = sys.argv[sys.argv.index("--batch") + 1 : sys.argv.index("--dir")]
smiles = [open(one).read().partition("REMARK SMILES ")[2].split()[0] for one in files]
fatal = {fatal!r}
if {skips}:  # as releases after 1.2.3 do
    readable = [one for one, text in zip(files, smiles) if text != "CCB(O)O"]
    start = sys.argv.index("--batch") + 1
    sys.argv[start : start + len(files)] = files = readable
    smiles = [text for text in smiles if text != "CCB(O)O"]
first = next((n for n, one in enumerate(smiles) if one in fatal), None)
argv = [{vina!r}, *sys.argv[1:]]
if first is None:
    os.execv(argv[0], argv)
start = argv.index("--batch") + 1
argv[start : start + len(files)] = files[:first]
if first:
    code = os.spawnv(os.P_WAIT, argv[0], argv)
    if code:
        sys.exit(code)
os.kill(os.getpid(), getattr(signal, f"SIG{{fatal[smiles[first]]}}"))
"""


@pytest.mark.parametrize("skips", [False, True])
def test_each_planted_ligand_is_named_and_all_others_are_docked(
    queue: Client, taskq: CommandLine, tmp_path: Path, skips: bool
) -> None:
    """Also by a Vina that skips what it cannot read."""
    vina = shutil.which("vina")
    assert vina, "this test needs AutoDock Vina: `apt-get install autodock-vina` as root"
    programs = tmp_path / "bin"
    programs.mkdir()
    program = VINA.format(python=sys.executable, fatal=FATAL, vina=vina, skips=skips)
    (programs / "vina").write_text(program)
    (programs / "vina").chmod(0o755)
    example = tmp_path / "examples" / "batch-docking"
    shutil.copytree(ROOT / "examples" / "batch-docking", example)
    ligands = example / "ligands.smi"
    middle = len(GOOD) // 2
    lines = [*GOOD[:middle], *FATAL, *BAD, *GOOD[middle:]]
    ligands.write_text("".join(f"{smiles} L{n}\n" for n, smiles in enumerate(lines)))
    text = section_of(ROOT / "docs" / "handlers.md", "Many tasks to one start")
    (commands,) = re.findall(r'```sh title="vina"\n(.*?)```', text, re.DOTALL)
    enter, receptor, create, *others = commands.splitlines()
    # Half as wide: each start of Vina computes maps for it.
    narrow = "sed -i s/30.000/15.000/ box.txt"
    once = f"taskq campaign change {PATH} --max-attempts 1"
    subprocess.run(
        ["sh", "-e", "-c", "\n".join((enter, receptor, narrow, create, once, *others))],
        cwd=tmp_path,
        env=taskq.environment
        | {"PATH": f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}"},
        check=True,
    )

    campaign = queue.campaign(PATH)
    status = campaign.status()
    assert (status.done, status.failed) == (len(GOOD), len(FATAL) + len(BAD))
    for number, smiles in enumerate(lines):
        (attempt,) = campaign.attempts(f"L{number}")
        if smiles in FATAL:
            signal = f"SIG{FATAL[smiles]}"
            assert attempt.error_class in (f"signal-{signal}", "exit-139", "exit-137"), attempt
        elif smiles in BAD:
            assert attempt.error_class == "bad-ligand"
            unread = skips and smiles == "CCB(O)O"
            why = "Vina has left no pose of this ligand" if unread else BAD[smiles]
            assert why in (attempt.error or "")
        else:
            assert attempt.result is not None
            assert attempt.result["score"] < 0
    assert len([*(example / "poses").rglob("pose.pdbqt")]) == 10
