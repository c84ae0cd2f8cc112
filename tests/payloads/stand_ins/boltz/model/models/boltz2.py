"""The model of the stand-in, which notes each time that it is loaded."""

from __future__ import annotations

import os
from pathlib import Path


class Boltz2:
    """Stands for a model of gigabytes."""

    @classmethod
    def load_from_checkpoint(cls, checkpoint: object, **options: object) -> Boltz2:
        """Load a model; the file that `BOLTZ_LOADS` names gets a line."""
        del options
        with Path(os.environ["BOLTZ_LOADS"]).open("a") as loads:
            loads.write(f"{checkpoint}\n")
        return cls()
