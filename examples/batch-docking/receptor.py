"""Write receptor.pdbqt and box.txt of the kinase MAPK14, out of the package dockstring, here.

usage: receptor.py

Your own receptor is a PDBQT file; box.txt has the centre and the size of the search, as Vina takes
them by --config.
"""

from __future__ import annotations

import shutil

from dockstring import load_target  # type: ignore[import-untyped]


def main() -> None:
    """Copy both files into the working folder."""
    target = load_target("MAPK14")
    shutil.copy(target.pdbqt_path, "receptor.pdbqt")
    shutil.copy(target.conf_path, "box.txt")


if __name__ == "__main__":
    main()
