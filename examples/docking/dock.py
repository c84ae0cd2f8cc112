"""The handler of the docking campaigns: score one ligand against one receptor.

A task names a `target` of dockstring's, a ligand as `smiles` and a random `seed`; what all
tasks share may stand in the campaign's parameters instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from taskq_agent import FailForGood, NodeBroken, output_path

if TYPE_CHECKING:
    from engines import Engine

MAX_SEED: Final = 2**31 - 1


@dataclass(frozen=True)
class Bench:
    """What a child process keeps between tasks."""

    params: Mapping[str, Any]
    engine: Engine
    pdbqt: Callable[[str, int], str]


def prepare(params: Mapping[str, Any]) -> Bench:
    """Import the chemistry, half a second of work, and choose the engine.

    Raises NodeBroken when this node lacks a package or a Vina that runs.
    """
    try:
        # Imported here because a package that is missing is the node's fault, not the task's.
        from engines import make_engine  # noqa: PLC0415 (see above)
        from ligands import pdbqt  # noqa: PLC0415 (see above)
    except ImportError as error:
        raise NodeBroken(f"{error}: install taskq with the extra `docking`") from error
    return Bench(params, make_engine(params), pdbqt)


def dock(payload: Mapping[str, Any], shared: Bench) -> dict[str, Any]:
    """Return the best score of one search, in kcal/mol, and its engine; leave the pose."""
    task = {**shared.params, **payload}
    target, smiles, seed = task.get("target"), task.get("smiles"), task.get("seed")
    if not isinstance(target, str) or not isinstance(smiles, str):
        raise FailForGood("a docking task needs `target` and `smiles`, both text")
    # Vina takes 0 for "choose one", and the result could not be repeated.
    if type(seed) is not int or not 1 <= seed <= MAX_SEED:
        raise FailForGood(f"a docking task needs `seed`, a whole number from 1 to {MAX_SEED}")
    docked = shared.engine.dock(target, shared.pdbqt(smiles, seed), seed)
    if (folder := output_path()) is not None:
        (folder / "pose.pdbqt").write_text(docked.pose)
    return {"score": round(docked.score, 3), "engine": shared.engine.name}
