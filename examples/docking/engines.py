"""AutoDock Vina (Trott and Olson 2010; Eberhardt et al. 2021) in the two forms that install.

`VinaBinding` calls Vina 1.2 inside this process. Where there is no wheel of it (Python 3.13),
`VinaProgram` starts the static Vina 1.1.2 that comes with dockstring: Linux on x86 only, a
process and a set of maps per task, and twice as slow for the same number of searches.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import OrderedDict
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

# dockstring and vina ship no type information
from dockstring import (  # type: ignore[import-untyped]
    DockstringError,
    list_all_target_names,
    load_target,
)
from dockstring.utils import get_vina_path, parse_search_box_conf  # type: ignore[import-untyped]

from taskq_agent import FailForGood, NodeBroken, Retry

try:
    from vina import Vina  # type: ignore[import-untyped]
except ImportError:
    Vina = None

_BEST_SCORE: Final = re.compile(r"^REMARK VINA RESULT:\s+(\S+)", re.MULTILINE)
_ERROR_CHARS: Final = 500


class Docked(NamedTuple):
    """A pose, as PDBQT text, and its score in kcal/mol."""

    score: float
    pose: str


class Engine(Protocol):
    """Docks one ligand at a time."""

    name: str

    def dock(self, target: str, ligand: str, seed: int) -> Docked:
        """Return the best pose of a ligand, given as PDBQT text, that one search finds.

        The same arguments give the same pose. Raises FailForGood for a target or ligand
        that cannot be docked.
        """


def make_engine(params: Mapping[str, Any]) -> Engine:
    """Return the engine that this node has, with the campaign's parameters.

    Raises NodeBroken when it has none that runs, FailForGood for parameters out of range.
    """
    if Vina is not None:
        exhaustiveness = _whole("exhaustiveness", params, default=1, low=1)
        return VinaBinding(exhaustiveness, _whole("resident", params, default=0, low=0))
    return VinaProgram(_whole("program_exhaustiveness", params, default=2, low=1))


def _whole(name: str, params: Mapping[str, Any], *, default: int, low: int) -> int:
    value = params.get(name, default)
    if type(value) is not int or value < low:
        raise FailForGood(f"parameter `{name}` must be a whole number from {low}, not {value!r}")
    return value


class VinaBinding:
    """Vina 1.2 in this process, keeping the latest `resident` receptors with their maps.

    A kept receptor has maps for all atom types, so that any ligand can follow; it is bound to
    one random seed, which Vina takes at construction only, and holds about 240 MB for a box of
    30 Angstrom. With none kept, maps are made for the atom types of the ligand at hand, which
    takes half the time. The scores are the same.
    """

    def __init__(self, exhaustiveness: int, resident: int) -> None:
        self.name = f"vina {version('vina')}"
        self._exhaustiveness = exhaustiveness
        self._resident = resident
        self._kept: OrderedDict[tuple[str, int], Any] = OrderedDict()

    def dock(self, target: str, ligand: str, seed: int) -> Docked:
        """Return the best pose, as `Engine.dock` says."""
        try:
            if self._resident:
                vina = self._receptor(target, seed)
                vina.set_ligand_from_string(ligand)
            else:
                vina = new_vina(target, seed)
                vina.set_ligand_from_string(ligand)
                compute_maps(vina, target)
            vina.dock(exhaustiveness=self._exhaustiveness)
            return Docked(float(vina.energies(n_poses=1)[0][0]), vina.poses(n_poses=1))
        except (IndexError, RuntimeError, TypeError, ValueError) as error:
            # Vina reports a ligand that it cannot parse by TypeError; a search that finds
            # nothing inside the box leaves no energies. Neither changes when repeated.
            raise FailForGood(f"Vina cannot dock this ligand to {target}: {error}") from error

    def _receptor(self, target: str, seed: int) -> Any:
        key = (target, seed)
        if key not in self._kept:
            while len(self._kept) >= self._resident:  # first, so that memory is free again
                self._kept.popitem(last=False)
            vina = new_vina(target, seed)
            compute_maps(vina, target)
            self._kept[key] = vina
        self._kept.move_to_end(key)
        return self._kept[key]


class VinaProgram:
    """The Vina 1.1.2 program that comes with dockstring, one process per score."""

    name = "vina 1.1.2 (dockstring's program)"

    def __init__(self, exhaustiveness: int) -> None:
        self._exhaustiveness = exhaustiveness
        try:
            self._program = str(get_vina_path())
            subprocess.run(
                [self._program, "--version"],
                check=True,
                stdin=subprocess.DEVNULL,
                capture_output=True,
            )
        except (DockstringError, OSError, subprocess.CalledProcessError) as error:
            raise NodeBroken(
                f"neither Vina's Python binding nor its program runs: {error}"
            ) from error

    def dock(self, target: str, ligand: str, seed: int) -> Docked:
        """Return the best pose, its score to 0.1 kcal/mol, as `Engine.dock` says."""
        receptor, box = _receptor_files(target)
        with tempfile.TemporaryDirectory(prefix="dock-") as folder:
            ligand_file, poses_file = Path(folder, "ligand.pdbqt"), Path(folder, "poses.pdbqt")
            ligand_file.write_text(ligand)
            command = [self._program, "--receptor", receptor, "--config", box]
            command += ["--ligand", str(ligand_file), "--out", str(poses_file)]
            command += ["--seed", str(seed), "--exhaustiveness", str(self._exhaustiveness)]
            command += ["--cpu", "1"]
            ended = subprocess.run(
                command, check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True
            )
            if ended.returncode < 0:
                # For want of memory, mostly: another node may have more.
                raise Retry(f"Vina was killed by signal {-ended.returncode}")
            poses = poses_file.read_text() if poses_file.exists() else ""
        found = _BEST_SCORE.search(poses)
        if ended.returncode or not found:
            said = (ended.stderr or ended.stdout).strip()[-_ERROR_CHARS:]
            raise FailForGood(f"Vina cannot dock this ligand to {target}: {said}")
        return Docked(float(found[1]), poses.partition("ENDMDL\n")[0] + "ENDMDL\n")


def new_vina(target: str, seed: int) -> Any:
    """Return a Vina with the receptor of a target."""
    vina = Vina(cpu=1, seed=seed, verbosity=0)
    vina.set_receptor(_receptor_files(target)[0])
    return vina


def compute_maps(vina: Any, target: str) -> None:
    """Prepare its search box, for the ligand that it has, or for any."""
    box = parse_search_box_conf(_receptor_files(target)[1])
    vina.compute_vina_maps(
        center=[box[f"center_{axis}"] for axis in "xyz"],
        box_size=[box[f"size_{axis}"] for axis in "xyz"],
    )


def _receptor_files(target: str) -> tuple[str, str]:
    """Return the PDBQT file and the file of the search box of one of dockstring's targets."""
    # dockstring makes a path of the name.
    if target not in list_all_target_names():
        raise FailForGood(f"target {target!r} is not one of dockstring's")
    found = load_target(target)
    return str(found.pdbqt_path), str(found.conf_path)
