"""The example of a resident Boltz-2, on a stand-in that does as `boltz predict` is recorded to."""

from __future__ import annotations

import json
from pathlib import Path

from taskq import Client, Seed
from tests.helpers.agent_processes import agent_process
from tests.helpers.command_line import CommandLine
from tests.helpers.docking import EXAMPLES
from tests.helpers.paths import PAYLOADS
from tests.helpers.waiting import wait_until

PATH = "/demo/boltz"
TARGET = {
    "version": 1,
    "sequences": [{"protein": {"id": "A", "sequence": "MVTPEG", "msa": "empty"}}],
    "properties": [{"affinity": {"binder": "L"}}],
}


def test_resident_boltz_names_ligands_that_it_skips_and_loads_its_models_once(
    queue: Client, taskq: CommandLine, dsn: str, tmp_path: Path
) -> None:
    """Only the ligand that kills it costs further loads."""
    ligands = [f"{'C' * n}O" for n in range(1, 9)]
    odd = {"C[He]": "bad-ligand", "C[Ne]": "no-prediction", "C[Ar]": "signal-SIGSEGV"}
    (tmp_path / "target.json").write_text(json.dumps(TARGET))
    taskq.out("campaign", "create", "--campaign-file", EXAMPLES / "boltz.toml")
    taskq.out("campaign", "change", PATH, "--max-attempts", "1")
    taskq.out("input", "add", PATH, EXAMPLES / "boltz_resident.py")
    taskq.out("input", "add", PATH, tmp_path / "target.json")
    campaign = queue.campaign(PATH)
    loads = tmp_path / "loads"
    environment = {
        "PYTHONPATH": str(PAYLOADS / "stand_ins"),
        "BOLTZ_LOADS": str(loads),
        "CUDA_VISIBLE_DEVICES": "0",
    }

    def ended(number: int) -> None:
        wait_until(lambda: campaign.status().final == number, timeout_s=120)

    with agent_process(
        dsn, "a", tmp_path / "log", "--quiet", "--slots", 1, path=PATH, **environment
    ):
        first = [*ligands[:5], "C[He]", "C[Ne]"]
        campaign.seed(Seed({"smiles": name}, name) for name in first)
        ended(7)
        assert loads.read_text().splitlines() == ["boltz2_conf.ckpt", "boltz2_aff.ckpt"]
        campaign.seed(Seed({"smiles": name}, name) for name in [*ligands[5:], "C[Ar]"])
        ended(11)
    for smiles in [*ligands, *odd]:
        end = campaign.attempts(smiles)[-1]
        if smiles in odd:
            assert end.error_class == odd[smiles], end
        else:
            assert end.result is not None, end
            assert end.result["affinity"] == -len(smiles)
