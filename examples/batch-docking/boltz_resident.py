"""Predict many complexes by a Boltz-2 that stays loaded, and say the outcome of each.

usage: boltz_resident.py TARGET [OPTION ...]

TARGET: the YAML of a complex without its ligand, written as JSON; a protein's `msa` may be the name
of an input. Each payload has the `smiles` of a ligand, which gets the chain L. OPTION: further
options of `boltz predict`, such as --no_kernels. A resident process of taskq, with `batch`.

`boltz predict` loads its models for each folder of inputs, which takes longer than to predict a
small complex. Here it is called in this process, and what it loads is kept. It skips an input that
it cannot read or that needs too much memory, and says nothing more of that one. If the structure of
one is missing, it cannot predict the affinity of any: then the others are predicted once more.
"""

from __future__ import annotations

import json
import os
import queue
import shutil
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

#: Most ligands of one call. Structures of all come first, then affinities.
MOST: Final = 64
#: If it can read none of so many inputs, it is not the ligands that are at fault.
MANY: Final = 10
GATHER_S: Final = 0.5
LOOK_S: Final = 0.5
BINDER: Final = "L"

Task = dict[str, Any]


def keep_loaded(kind: Any) -> None:
    """Let a class of models load each checkpoint once."""
    load, kept = kind.load_from_checkpoint, {}

    def loaded(checkpoint: object, **options: object) -> object:
        name = str(checkpoint)
        if name not in kept:
            kept[name] = load(checkpoint, **options)
        return kept[name]

    kind.load_from_checkpoint = loaded


class Group:
    """Some ligands, predicted by one call. left: those without an outcome, by number."""

    #: Whether this process has predicted any.
    predicts = False

    def __init__(self, tasks: Sequence[Task], folder: Path, say: Callable[..., None]) -> None:
        self.left = {task["id"]: task for task in tasks}
        self.inputs = folder / "ligands"
        self.out = folder / "out"
        self._results = self.out / "boltz_results_ligands"
        self._say = say
        self._lock = threading.Lock()

    def write(self, target: Task) -> None:
        """Write the input of each ligand; JSON is YAML."""
        self.inputs.mkdir(parents=True)
        for number, task in self.left.items():
            ligand = {"ligand": {"id": BINDER, "smiles": task["payload"]["smiles"]}}
            whole = {**target, "sequences": [*target["sequences"], ligand]}
            (self.inputs / f"{number}.yaml").write_text(json.dumps(whole))

    def look(self, *, affinity: bool) -> None:
        """Say the result of each ligand whose files are complete."""
        with self._lock:
            for number in [*self.left]:
                # A file that is not complete is no JSON yet; the affinity comes last.
                with suppress(OSError, ValueError):
                    self._take(number, affinity=affinity)

    def give_up(self, *, ended: bool) -> None:
        """Say which ligands have failed. ended: whether the call came to its end."""
        records = self._results / "processed" / "records"
        with self._lock:
            unread = [number for number in self.left if not (records / f"{number}.json").exists()]
            if len(unread) >= MANY and not Group.predicts:
                print("Boltz reads no input here: see the target and its MSA", file=sys.stderr)
                os._exit(os.EX_UNAVAILABLE)
            for number in [*self.left]:
                if number in unread:
                    verdict = "fail" if Group.predicts else "retry"
                    self._fail(number, "Boltz cannot read this ligand", "bad-ligand", verdict)
                elif ended or not self._structure(number).exists():
                    text = "Boltz has left no prediction, often for want of memory"
                    self._fail(number, text, "no-prediction", "retry")

    def _structure(self, number: int) -> Path:
        return self._results / "predictions" / str(number) / f"{number}_model_0.cif"

    def _take(self, number: int, *, affinity: bool) -> None:
        structure = self._structure(number)
        said = json.loads(structure.with_name(f"confidence_{number}_model_0.json").read_text())
        result = {"confidence": said["confidence_score"]}
        if affinity:
            said = json.loads(structure.with_name(f"affinity_{number}.json").read_text())
            result["affinity"] = said["affinity_pred_value"]
            result["probability"] = said["affinity_probability_binary"]
        if (out := self.left[number]["task"].get("out")) is not None:
            shutil.copy(structure, Path(out, "complex.cif"))
        del self.left[number]
        Group.predicts = True
        self._say(number, result=result)

    def _fail(self, number: int, why: str, error_class: str, verdict: str) -> None:
        del self.left[number]
        self._say(number, error=why, error_class=error_class, verdict=verdict)


def predict(group: Group, boltz: Any, options: Sequence[str], *, affinity: bool) -> None:
    """Call Boltz once; say outcomes as they come. An exception is raised if it shows nothing."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(LOOK_S):
            group.look(affinity=affinity)

    watcher = threading.Thread(target=watch)
    watcher.start()
    before, ended = len(group.left), False
    try:
        words = ["predict", str(group.inputs), "--out_dir", str(group.out), *options]
        boltz.main(args=words, standalone_mode=False)
        ended = True
    except Exception:
        traceback.print_exc()
        group.look(affinity=affinity)
        group.give_up(ended=False)
        if len(group.left) == before:
            raise
    finally:
        over.set()
        watcher.join()
    group.look(affinity=affinity)
    if ended:
        group.give_up(ended=True)


def main() -> None:
    """Serve tasks until the end of the standard input."""
    target = json.loads(Path(sys.argv[1]).read_text())
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what Boltz prints is no answer

    def say(number: int, **answer: object) -> None:
        answers.write(json.dumps({"id": number, **answer}) + "\n")
        answers.flush()

    paths = json.loads(sys.stdin.readline())["inputs"]
    for entity in target["sequences"]:
        for chain in entity.values():
            if chain.get("msa") in paths:
                chain["msa"] = paths[chain["msa"]]

    from boltz.main import cli  # type: ignore[import-not-found] # noqa: PLC0415
    from boltz.model.models.boltz2 import (  # type: ignore[import-not-found] # noqa: PLC0415
        Boltz2,
    )

    keep_loaded(Boltz2)
    waiting: queue.Queue[Task | None] = queue.Queue()

    def read() -> None:
        for line in sys.stdin:
            waiting.put(json.loads(line))
        waiting.put(None)

    threading.Thread(target=read, daemon=True).start()
    calls = 0
    while (first := waiting.get()) is not None:
        tasks = [first]
        with suppress(queue.Empty):
            while len(tasks) < MOST and (more := waiting.get(timeout=GATHER_S)) is not None:
                tasks.append(more)
        while tasks:
            calls += 1
            group = Group(tasks, Path(f"call-{calls}").resolve(), say)
            group.write(target)
            predict(group, cli, sys.argv[2:], affinity="properties" in target)
            shutil.rmtree(group.inputs.parent)
            tasks = [*group.left.values()]


if __name__ == "__main__":
    main()
