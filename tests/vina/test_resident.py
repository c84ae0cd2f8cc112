"""The resident process that docks many ligands in flight, with the real Python package of Vina."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

from dockstring import load_target  # type: ignore[import-untyped]

from taskq import Client
from tests.helpers.command_line import CommandLine
from tests.helpers.docking import EXAMPLES

PATH = "/demo/vina-resident"
LIGANDS = ["CCO", "CCN", "c1ccccc1", "CC(=O)N", "C[Se]C", "OCC(O)CO"]


def test_resident_process_docks_ligands_in_flight_and_names_a_bad_one(
    queue: Client, taskq: CommandLine, tmp_path: Path
) -> None:
    target = load_target("MAPK14")
    ligands = tmp_path / "ligands.smi"
    ligands.write_text("".join(f"{smiles} L{n}\n" for n, smiles in enumerate(LIGANDS)))
    taskq.out("campaign", "create", "--campaign-file", EXAMPLES / "vina-resident.toml")
    campaign = queue.campaign(PATH)
    spec = campaign.spec()
    campaign.change(replace(spec, params={**spec.params, "size": [15.0, 15.0, 15.0]}))
    taskq.out("input", "add", PATH, EXAMPLES / "vina_resident.py")
    taskq.out("input", "add", PATH, EXAMPLES / "many_ligands.py")
    taskq.out("input", "add", PATH, target.pdbqt_path, "--name", "receptor.pdbqt")
    taskq.out("seed", PATH, ligands)
    with taskq.process(
        *("agent", "run", "--campaign", PATH, "--slots", "1", "--cores", "2", "--until-empty"),
        environment={"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
    ) as agent:
        _, log = agent.communicate()
        assert agent.returncode == 0, log
    for number, smiles in enumerate(LIGANDS):
        end = campaign.attempts(f"L{number}")[-1]
        if smiles == "C[Se]C":
            assert end.error_class == "bad-ligand", end
        else:
            assert end.result is not None, end
            assert end.result["score"] < 0
    assert campaign.status().failed == 1
