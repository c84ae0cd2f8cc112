"""Real containers of udocker: results, ends, what they see, and nothing that stays behind."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from taskq_agent.binds import allowance, of_site
from taskq_agent.protocol import DONE, RELEASED
from tests.helpers.blob_server import BlobSource
from tests.helpers.slot_harness import processes_with, slot_in
from tests.helpers.waiting import is_there, wait_until
from tests.udocker.conftest import IMAGE, copies

UDOCKER: dict[str, Any] = {"container_runtime": "udocker"}


def real(script: str, image: object = IMAGE, **more: Any) -> dict[str, Any]:
    """Return a handler that runs a script in a container."""
    text = script.replace("{", "{{").replace("}", "}}")
    return {"kind": "command", "argv": ["sh", "-c", text], "container": str(image), **more}


def test_image_of_udocker_runs_and_its_copy_is_removed(tmp_path: Path) -> None:
    """The processes are the agent's, which measures them."""
    with slot_in(tmp_path, **UDOCKER) as slot:
        ended = slot.run(real('echo "{\\"n\\": 1}" > "$TASKQ_RESULT"; echo said'))
        assert (ended.outcome, ended.result) == (DONE, {"n": 1}), ended
        assert ended.tail == "said\n"
        assert "cpu_s" in ended.phases
        assert slot.run(real("exit 65")).error_class == "exit-65"
    assert copies() == []


def test_folder_is_an_image_that_nobody_copies(tmp_path: Path, root: Path) -> None:
    with slot_in(tmp_path, **UDOCKER) as slot:
        ended = slot.run(real('echo "$0 $TASKQ_KEY"', root), key="ligand 1")
    assert (ended.outcome, ended.result) == (DONE, {"stdout": "sh ligand 1"}), ended
    assert copies() == []


def test_udocker_program_reads_inputs_and_what_is_bound(tmp_path: Path, root: Path) -> None:
    """With the site's binds, those that it allows, and variables that it passes."""
    source = BlobSource(tmp_path)
    (tmp_path / "site" / "library").mkdir(parents=True)
    (tmp_path / "site" / "library" / "ligand").write_text("CCO")
    script = 'cat "$1" /site/library/ligand /library/ligand; echo " $MODE"; echo 1 > /out/x'
    handler = real(script, root, binds=[f"{tmp_path}/site/library:/library"])
    handler["argv"] += ["sh", "{inputs.r}"]
    (tmp_path / "out").mkdir()
    settings: dict[str, Any] = {
        **UDOCKER,
        "binds": (of_site(f"{tmp_path}/site:/site"), of_site(f"{tmp_path}/out:/out:rw")),
        "allow_binds": (allowance(f"{tmp_path}/site"),),
    }
    with slot_in(tmp_path, blobs=source, **settings) as slot:  # type: ignore[arg-type]
        given = {**handler, "env": {"MODE": "a 'b'"}}
        ended = slot.run(given, inputs={"r": source.add(b"receptor ")})
    assert ended.tail == "receptor CCOCCO a 'b'\n", ended
    assert (tmp_path / "out" / "x").read_text() == "1\n"


@pytest.mark.parametrize(
    ("image", "argv"),
    [
        ("gone@sha256:0/1", ["sh"]),
        (IMAGE, ["nosuch"]),
    ],
)
def test_program_that_udocker_cannot_start_is_refused(
    tmp_path: Path, image: str, argv: list[str]
) -> None:
    with slot_in(tmp_path, **UDOCKER) as slot:
        ended = slot.run({"kind": "command", "argv": argv, "container": image})
    assert (ended.outcome, ended.error_class) == (RELEASED, "container-unusable"), ended
    assert "Error: " in str(ended.error)


def test_program_of_udocker_is_killed_with_its_task(tmp_path: Path, root: Path) -> None:
    """At its time limit, and nothing of it is left."""
    endless = real("trap '' TERM; touch begun; while true; do sleep 1; done", root)
    with slot_in(tmp_path, grace_s=0.5, **UDOCKER) as slot:
        with slot.stopped_once(lambda: is_there(tmp_path, "scratch/*/*/begun")):
            assert slot.run(endless).outcome == RELEASED
        assert slot.run(real("exit 0", root)).outcome == DONE


def test_copy_of_udocker_is_removed_after_its_agent_was_killed(tmp_path: Path) -> None:
    """By the reaper, with all processes."""
    handler = json.dumps(real("touch begun; sleep 1000"))
    words = [sys.executable, "-m", "taskq_agent", "try", "--container-runtime", "udocker"]
    words += ["--scratch", str(tmp_path), "--handler", handler]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as agent:
        try:
            wait_until(lambda: is_there(tmp_path, "*/*/begun"))
            (inside,) = tmp_path.glob("*/*/begun")
            assert copies()
        finally:
            agent.send_signal(signal.SIGKILL)
    wait_until(lambda: copies() == [])
    wait_until(lambda: not any(tmp_path.iterdir()))
    assert processes_with("TASKQ_SCRATCH", str(inside.parent)) == []


def test_resident_program_of_udocker_answers_many_tasks(tmp_path: Path, root: Path) -> None:
    script = """
        while read -r line; do
            case $line in *'"task"'*) ;; *) continue;; esac
            id=${line#*'"id":'}; id=${id%%,*}
            echo "{\\"id\\":$id,\\"result\\":{\\"pid\\":$$}}"
        done
    """
    with slot_in(tmp_path, **UDOCKER) as slot:
        ends = [slot.run({**real(script, root), "kind": "process"}) for _ in range(3)]
    assert [ended.outcome for ended in ends] == [DONE] * 3, ends
    assert len({str(ended.result) for ended in ends}) == 1


def test_value_of_a_variable_is_in_no_arguments_of_udocker(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of no process, as others see them while the program runs."""
    key = "oe-licence-8c1f"
    monkeypatch.setenv("OE_LICENSE", key)
    script = 'test "$OE_LICENSE" = $(cat want) && echo yes; touch begun; sleep 1000'
    handler = real(script.replace("$(cat want)", "oe-licence-8c1''f"), root)
    handler = {**handler, "pass_env": ["OE_LICENSE"]}
    seen: list[str] = []

    def look() -> bool:
        if not is_there(tmp_path, "scratch/*/*/begun"):
            return False
        for file in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                seen.append(file.read_text(errors="replace"))
        return True

    settings: dict[str, Any] = {**UDOCKER, "allow_env": ("OE_LICENSE",)}
    with slot_in(tmp_path, **settings) as slot, slot.stopped_once(look):
        ended = slot.run(handler)
    assert "yes" in str(ended.tail)
    assert any("proot" in line for line in seen)
    assert not [line for line in seen if key in line]


def test_udocker_is_the_one_from_the_registry_of_packages() -> None:
    """And no stand-in."""
    found = shutil.which("udocker")
    assert found is not None
    assert Path(found).parent == Path(sys.executable).parent
