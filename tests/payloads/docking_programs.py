"""Stand-ins for docking programs on GPUs: their options, output formats and ways to fail.

usage: docking_programs.py PROGRAM ODD ARGUMENT ...

PROGRAM: autodock_gpu, unidock, gnina. ODD: a JSON file that says what happens at which ligand, by
the name in it: a signal, `hang`, `exit` (with 1), `memory`, `skip`, `unreadable`. They follow what
the sources of AutoDock-GPU 1.5.3 and 1.6, Uni-Dock 1.1 and gnina 1.3 do; poses are one atom.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ATOM = "ATOM      1  C   UNL     1      -2.061  -1.304  24.206  1.00  0.00     0.000 C \n"
GPU_BATCH = 4
MEMORY_BYTES = 400_000_000
ALL_KEPT: list[bytearray] = []


def option(name: str) -> str:
    """Return the value of an option."""
    return sys.argv[sys.argv.index(name) + 1]


def score(name: str) -> float:
    """Return the score of a ligand."""
    return -float(len(name))


def say(text: str) -> None:
    """Print a line."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def name_in(text: str) -> str:
    """Return the name of the ligand in a file."""
    found = re.search(r"ligand-name (\S+)", text)
    assert found is not None, text
    return found[1]


def act(what: str) -> None:
    """Fail as a ligand makes the program fail."""
    sys.stdout.flush()
    if what == "hang":
        time.sleep(3_600)
    elif what == "exit":
        sys.stderr.write("\n\nAn error occurred: this ligand.\n")
        os._exit(1)
    elif what == "memory":
        ALL_KEPT.append(bytearray(b"x") * MEMORY_BYTES)
        time.sleep(3_600)
    elif what.startswith("SIG"):
        signal.signal(signal.Signals[what], signal.SIG_DFL)
        os.kill(os.getpid(), signal.Signals[what])
        time.sleep(3_600)


def unidock(odd: dict[str, str]) -> None:
    """Dock in batches, in another order; write the files of a batch together."""
    files = Path(option("--ligand_index")).read_text().split()
    out = Path(option("--dir"))
    assert out.is_dir()
    assert Path(option("--config")).exists()
    random.Random(len(files)).shuffle(files)
    say(f"Total ligands: {len(files)}")
    for first in range(0, len(files), max(GPU_BATCH, len(files) // 10)):
        batch = files[first : first + max(GPU_BATCH, len(files) // 10)]
        names = [name_in(Path(file).read_text()) for file in batch]
        say(f"Small Batch {first} size: {len(batch)}")
        whole = [
            f"MODEL 1\nREMARK VINA RESULT: {score(name):9.3f}      0.000      0.000\n"
            f"REMARK INTER + INTRA:    {score(name):12.3f}\nROOT\n{ATOM}ENDROOT\n"
            "TORSDOF 0\nENDMDL\n"
            for name in names
        ]
        poses = [out / file.replace(".pdbqt", "_out.pdbqt") for file in batch]
        fatal = next((odd[name] for name in names if odd.get(name, "skip") != "skip"), None)
        if fatal is not None:  # the first file of this batch is torn
            poses[0].write_text(whole[0][: whole[0].index("TORSDOF")])
            act(fatal)
        for name, file, text in zip(names, poses, whole, strict=True):
            if name in odd:
                sys.stderr.write("WARNING: Could not find any poses. No poses were written.\n")
            else:
                file.write_text(text)


def autodock_gpu(odd: dict[str, str]) -> None:
    """Dock one after the other; flag those that cannot be docked, and end with 0."""
    maps, *lines = Path(option("--filelist")).read_text().splitlines()
    assert Path(maps).exists()
    assert option("--xmloutput") == "0"
    say("AutoDock-GPU version: v1.6\n")
    say(f"Running {len(lines) // 2} docking calculations\n")
    flagged = []
    for job, (file, resname) in enumerate(zip(lines[::2], lines[1::2], strict=True), 1):
        name = name_in(Path(file).read_text())
        if odd.get(name) == "skip":
            say("Error: No grid map for ligand atom type Se.")
            say(f"\nError in setup of Job #{job}:\n(   Grid map file: {maps} )")
            flagged.append((job - 1, file))
            continue
        say(f"\nRunning Job #{job}:\n    Device: none\n    Grid map file: {maps}")
        say(f"    Ligand file: {file}\n    Output file: {resname}.dlg")
        with Path(f"{resname}.dlg").open("w") as log:
            for run, energy in enumerate((score(name) + 1, score(name)), 1):
                log.write(f"DOCKED: MODEL        {run}\nDOCKED: USER    Run = {run}\n")
                log.write("DOCKED: USER    Estimated Free Energy of Binding    =")
                log.write(f"{energy:+8.2f} kcal/mol  [=(1)+(2)+(3)-(4)]\n")
                log.write(f"DOCKED: {ATOM}DOCKED: TER\nDOCKED: ENDMDL\n")
            log.flush()
            act(odd.get(name, ""))
            log.write("\nRun time 0.100 sec\nIdle time 0.010 sec\n")
        say(f"\nJob #{job} took 0.100 sec after waiting 0.010 sec for setup\n")
    if flagged:
        say("\nWarning: The following jobs were not successful:")
    for number, file in flagged:
        say(f"         Job {number}: {file}")


def gnina(odd: dict[str, str]) -> None:
    """Dock the records of one file into another, whose end is written in blocks."""
    records = Path(option("--ligand")).read_text().split("$$$$\n")[:-1]
    with Path(option("--out")).open("w") as out:
        for record in records:
            title, name = record.partition("\n")[0], name_in(record)
            what = odd.get(name, "")
            if what == "unreadable":
                return  # and 0, without a word
            if what == "skip":
                sys.stderr.write(f'\n\nParse error with molecule {title} in file "": no type\n')
                continue
            act(what)
            out.write(
                f"{record}> <minimizedAffinity>\n{score(name):.5f}\n\n"
                "> <CNNscore>\n0.5000000000\n\n> <CNNaffinity>\n6.0000000000\n\n$$$$\n"
            )


if __name__ == "__main__":
    program, odd_file = sys.argv[1:3]
    programs: dict[str, Callable[[dict[str, str]], Any]] = {
        "autodock_gpu": autodock_gpu,
        "unidock": unidock,
        "gnina": gnina,
    }
    programs[program](json.loads(Path(odd_file).read_text()))
