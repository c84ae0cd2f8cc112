"""Real containers: results, ends, limits, and nothing that stays behind."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from taskq_agent.protocol import DONE, FAILED, OUT_OF_MEMORY, RELEASED
from tests.containers.conftest import IMAGE
from tests.helpers.blob_server import BlobSource
from tests.helpers.slot_harness import SlotHarness, slot_in
from tests.helpers.waiting import is_there, wait_until

pytestmark = pytest.mark.usefixtures("image")


@pytest.fixture
def podman_slot(tmp_path: Path) -> Iterator[SlotHarness]:
    """Give a slot whose containers are real."""
    with slot_in(tmp_path, grace_s=1) as harness:
        yield harness


@pytest.fixture
def podman_slot_with_blobs(tmp_path: Path) -> Iterator[tuple[SlotHarness, BlobSource]]:
    """Give such a slot that fetches inputs."""
    source = BlobSource(tmp_path)
    with slot_in(tmp_path, blobs=source) as harness:  # type: ignore[arg-type]
        yield harness, source


def real(script: str) -> dict[str, Any]:
    """Return a handler that runs a script in a container."""
    return {"kind": "command", "argv": ["sh", "-c", script], "container": IMAGE}


def containers() -> str:
    """Return the names of our containers that are there."""
    list_all = ["podman", "ps", "--all", "--filter", "name=taskq-", "--format", "{{.Names}}"]
    return subprocess.run(list_all, capture_output=True, check=True, text=True).stdout


def test_real_container_leaves_its_result_and_nothing_else(podman_slot: SlotHarness) -> None:
    ended = podman_slot.run(real('echo "{{\\"n\\": 1}}" > "$TASKQ_RESULT"; ls /home 2>&1; exit 0'))
    assert (ended.outcome, ended.result) == (DONE, {"n": 1})
    assert podman_slot.run(real("exit 65")).error_class == "exit-65"
    assert containers() == ""


def test_real_container_is_killed_with_its_task(podman_slot: SlotHarness, tmp_path: Path) -> None:
    """At the time limit, and when it is stopped."""
    endless = real("trap '' TERM; touch begun; while true; do sleep 1; done")
    assert podman_slot.run(endless, limit_s=5.0).error_class == "time-limit"
    assert containers() == ""
    with podman_slot.stopped_once(lambda: is_there(tmp_path, "scratch/*/*/begun")):
        assert podman_slot.run(endless).outcome == RELEASED
    assert containers() == ""


def test_real_container_is_removed_after_its_agent_was_killed(tmp_path: Path) -> None:
    """By the reaper."""
    handler = json.dumps(real("touch begun; sleep 1000"))
    words = [
        sys.executable,
        "-m",
        "taskq_agent",
        "try",
        "--scratch",
        tmp_path,
        "--handler",
        handler,
    ]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as agent:
        wait_until(lambda: is_there(tmp_path, "*/*/begun"))
        assert containers() != ""
        agent.send_signal(signal.SIGKILL)
    wait_until(lambda: containers() == "")
    wait_until(lambda: not any(tmp_path.iterdir()))


def test_real_container_has_no_more_memory_than_it_may(podman_slot: SlotHarness) -> None:
    """The kernel kills it."""
    grow = real("x=aaaaaaaa; while true; do x=$x$x; done")
    ended = podman_slot.run(grow, resources={"memory": (50 << 20,)})
    assert (ended.outcome, ended.error_class) == (FAILED, OUT_OF_MEMORY)


def test_real_container_is_given_no_folder_that_another_payload_chose(
    podman_slot_with_blobs: tuple[SlotHarness, BlobSource], tmp_path: Path
) -> None:
    """A payload replaces neither its input nor the link to it, by whatever name it goes there."""
    slot, source = podman_slot_with_blobs
    inputs, secret = {"r": source.add(b"receptor")}, tmp_path / "secret"
    secret.mkdir()
    (secret / "key").write_text("private")
    attack = f"""
        busybox rm -rf "$1" "$(busybox dirname "$1")"
        busybox ln -sfn {secret} "$1"
        busybox mv "$(busybox dirname "$1")" "$TASKQ_SCRATCH/away"
        busybox find "$TASKQ_SCRATCH/.." -type l -exec busybox ln -sfn {secret} "{{{{}}}}" ";"
        echo x > "$1"; cat "$1"; ls {secret}
    """
    handler = {**real(attack), "argv": ["sh", "-c", attack, "sh", "{inputs.r}"]}
    for key in ("attacker", "next"):
        ended = slot.run(handler, inputs=inputs, key=key)
        assert "receptor" in str(ended.tail)
        assert f"ls: {secret}: No such file" in str(ended.tail), ended.tail


def test_real_container_reaches_no_folder_but_that_of_its_task(
    podman_slot: SlotHarness, tmp_path: Path
) -> None:
    """What is above is the container's own: neither its rights nor its names are the agent's."""
    attack = "for n in 1 2 3 4 5 6 7 8; do touch ../$n-task7 ../$n-child; done; chmod 000 .. .; "
    inside = []
    for _ in range(3):
        with podman_slot.stopped_once(lambda: is_there(tmp_path, "scratch/*/*/begun")):
            podman_slot.run(real(f"touch begun; {attack} sleep 1000"))
        (place,) = tmp_path.glob("scratch/*")
        inside.append((place.stat().st_mode & 0o777, [*place.iterdir()]))
    assert inside == [(0o700, [])] * 3
    assert podman_slot.run(real("exit 0")).outcome == DONE


def test_real_resident_program_sees_the_folders_of_its_tasks(
    podman_slot: SlotHarness,
) -> None:
    """And none of another program. One that closes them has to go."""
    script = """
        while read -r line; do
            case $line in *'"task"'*) ;; *) continue;; esac
            id=${{line#*'"id":'}}; id=${{id%%,*}}
            at=${{line#*'"scratch":"'}}; at=${{at%%'"'*}}
            test -d "$at" && touch "$at/written" && seen=true || seen=false
            echo "{{\\"id\\":$id,\\"result\\":{{\\"seen\\":$seen}}}}"
            test -e "$at/../spoilt" || {{ touch "$at/../spoilt"; continue; }}
            busybox rm -rf "$at/.."/*; chmod 000 "$at/.."; exit
        done
    """
    handler = {**real(script), "kind": "process"}
    ends = []
    for key in "abcd":
        ends.append(podman_slot.run(handler, key=key))
        if key in "bd":
            wait_until(lambda: containers() == "")
    assert [ended.result for ended in ends] == [{"seen": True}] * 4, ends
