"""`boltz predict` of the stand-in, after the source of Boltz 2.2.1.

What a ligand does is in its SMILES: `[He]` cannot be read, `[Ne]` needs too much memory and is
skipped, `[Ar]` kills the process.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from boltz.model.models.boltz2 import Boltz2


class _Cli:
    """What `cli` of the real package does when it is called as a function."""

    def main(self, args: Sequence[str], *, standalone_mode: bool) -> None:
        """Predict the inputs in a folder."""
        assert not standalone_mode
        command, folder, out_option, out, *_ = args
        assert (command, out_option) == ("predict", "--out_dir")
        inputs = [*Path(folder).iterdir()]
        random.Random(len(inputs)).shuffle(inputs)
        results = Path(out) / f"boltz_results_{Path(folder).stem}"
        sys.stdout.write(f"Processing {len(inputs)} inputs with 1 threads.\n")
        read = []
        records = results / "processed" / "records"
        records.mkdir(parents=True)
        for file in inputs:
            content = json.loads(file.read_text())  # JSON is YAML
            smiles = content["sequences"][-1]["ligand"]["smiles"]
            assert content["properties"] == [{"affinity": {"binder": "L"}}]
            if "[He]" in smiles:
                sys.stdout.write(f"Failed to process {file}. Skipping. Error: no atom.\n")
                continue
            (records / f"{file.stem}.json").write_text("{}")
            read.append((file.stem, smiles))
        Boltz2.load_from_checkpoint("boltz2_conf.ckpt", strict=True)
        for name, smiles in read:
            predicted = results / "predictions" / name
            predicted.mkdir(parents=True)
            if "[Ar]" in smiles:
                os.kill(os.getpid(), signal.SIGSEGV)
            if "[Ne]" in smiles:
                sys.stdout.write("| WARNING: ran out of memory, skipping batch\n")
                continue
            (predicted / f"{name}_model_0.cif").write_text(f"data_{name}\n")
            (predicted / f"pre_affinity_{name}.npz").write_bytes(b"")
            said = {"confidence_score": 0.8, "ptm": 0.8, "ligand_iptm": 0.9}
            (predicted / f"confidence_{name}_model_0.json").write_text(json.dumps(said, indent=4))
        Boltz2.load_from_checkpoint("boltz2_aff.ckpt", strict=True)
        for name, smiles in read:
            predicted = results / "predictions" / name
            if not (predicted / f"pre_affinity_{name}.npz").exists():
                raise FileNotFoundError(f"{predicted}/pre_affinity_{name}.npz")
            said = {
                "affinity_pred_value": -float(len(smiles)),
                "affinity_probability_binary": 0.5,
            }
            (predicted / f"affinity_{name}.json").write_text(json.dumps(said, indent=4))


cli = _Cli()
