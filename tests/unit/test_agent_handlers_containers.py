"""Programs in containers: what runtimes are called with; `make test-containers` has real ones.

The stand-in for a runtime records how it was called and runs the program by itself.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
from pathlib import Path

import pytest

from taskq_agent.devices import ROCM
from taskq_agent.handlers.base import Ended
from taskq_agent.protocol import DONE, RELEASED
from taskq_agent.resources import Resources
from tests.helpers.blob_server import BlobSource
from tests.helpers.paths import PAYLOADS
from tests.helpers.runtimes import IMAGE, boxed, calls, folder_of_runtimes, install, mounts_of
from tests.helpers.slot_harness import slot_in
from tests.helpers.waiting import wait_until

GPU = "GPU-5a1b7c02-3f1e-4f6e-9d5f-0a4b8e6d1c2f"


@pytest.fixture
def runtimes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a folder for stand-ins, the only one of PATH next to that of sh."""
    folder = folder_of_runtimes(tmp_path)
    monkeypatch.setenv("PATH", str(folder))
    return folder


@pytest.mark.parametrize("name", ["podman", "docker"])
def test_service_gets_its_whole_container_in_arguments(
    runtimes: Path, tmp_path: Path, name: str
) -> None:
    """Whose rights, which folders, which limits; values of variables are in the environment."""
    log, source = install(runtimes, name), BlobSource(tmp_path)
    given = source.add(b"receptor")
    limits = {"memory": (1 << 30,), "gpus": 1}
    with slot_in(tmp_path, blobs=source, node=Resources(gpus=(GPU,))) as slot:  # type: ignore[arg-type]
        ended = slot.run(
            boxed("sh", "-c", 'echo "$1" > "$TASKQ_RESULT"', "sh", '{{"x": "a b"}}'),
            inputs={"r.pdbqt": given},
            resources=limits,
        )
    assert (ended.outcome, ended.result) == (DONE, {"x": "a b"})
    assert "cpu_s" not in ended.phases  # the processes are those of the service
    (words, env), (removal, _) = calls(log)
    assert words[:4] == ["run", "--rm", "--interactive", "--name"]
    assert removal == ["rm", "--force", words[4]]
    assert words[words.index(IMAGE) + 1 :] == [
        *("-c", 'echo "$1" > "$TASKQ_RESULT"', "sh", '{"x": "a b"}'),
    ]
    options = dict(itertools.pairwise(words))
    assert options["--user"] == f"{os.geteuid()}:{os.getegid()}"
    assert (options["--memory"], options["--cap-drop"]) == (str(1 << 30), "all")
    folder = env["TASKQ_SCRATCH"]
    link = Path(json.loads(env["TASKQ_INPUTS"])["r.pdbqt"])
    assert mounts_of(words) == {
        folder: "",
        str(link.parent): ",readonly",
        str(tmp_path / "cache" / given.digest): ",readonly",
    }
    assert options["--workdir"] == folder
    cdi, whole = ("--device", f"nvidia.com/gpu={GPU}"), ("--gpus", f'"device={GPU}"')
    assert (cdi if name == "podman" else whole) in {*itertools.pairwise(words)}
    passed = {words[n + 1] for n, word in enumerate(words) if word == "--env"}
    assert {"TASKQ_INPUTS", "TASKQ_RESULT", "TMPDIR", "CUDA_VISIBLE_DEVICES"} <= passed
    assert all("=" not in name for name in passed)


def test_apptainer_gets_a_file_or_the_name_in_a_registry(runtimes: Path, tmp_path: Path) -> None:
    """Its processes are the agent's, and measured as such."""
    log = install(runtimes, "apptainer")
    image = tmp_path / "vina.sif"
    image.touch()
    with slot_in(tmp_path) as slot:
        ended = slot.run(
            boxed("sh", "-c", 'test "$APPTAINERENV_TASKQ_KEY" = key', image=str(image))
        )
        assert slot.run(boxed("sh", "-c", "exit 3")).error_class == "exit-3"
    assert (ended.outcome, "cpu_s" in ended.phases) == (DONE, True)
    (first, env), (second, _) = calls(log)
    assert first[:5] == ["--silent", "exec", "--containall", "--cleanenv", "--no-home"]
    assert first[first.index("--pwd") + 1] == env["APPTAINERENV_TASKQ_SCRATCH"]
    assert str(image) in first
    assert f"docker://{IMAGE}" in second


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "node", "options"),
    [
        ("apptainer", Resources(gpus=("0",)), ["--nv"]),
        ("apptainer", Resources(gpus=("0",), gpu_variable=ROCM), ["--rocm"]),
        ("podman", Resources(gpus=("0",)), ["--device", "nvidia.com/gpu=all"]),
        ("podman", Resources(gpus=("GPU-5a1b",)), ["--device", "nvidia.com/gpu=all"]),
        ("podman", Resources(gpus=("MIG-" + GPU + "/1/0",)), ["--device", "nvidia.com/gpu=all"]),
        ("docker", Resources(gpus=("0",)), ["--gpus", "all"]),
        ("docker", Resources(gpus=("0",), gpu_variable=ROCM), ["--device", "/dev/kfd"]),
    ],
)
def test_container_gets_the_devices_of_its_task(
    runtimes: Path, tmp_path: Path, name: str, node: Resources, options: list[str]
) -> None:
    """Numbers mean others in a container that has some devices only, so it has all of them."""
    log = install(runtimes, name)
    program = boxed("sh", "-c", "exit 0")
    with slot_in(tmp_path, node=node) as slot:
        assert slot.run(program, resources={"gpus": 0.5}).outcome == DONE
        assert slot.run(program).outcome == DONE
    shared, without = [words for words, _ in calls(log) if "rm" not in words[:1]]
    assert " ".join(options) in " ".join(shared)
    assert options[0] not in without


@pytest.mark.parametrize("name", ["podman", "apptainer"])
def test_container_that_this_node_cannot_run_is_refused(
    runtimes: Path, tmp_path: Path, name: str
) -> None:
    """No runtime, no image, no such file, a folder that cannot be bound."""
    with slot_in(tmp_path) as slot:
        ends = [slot.run(boxed("sh", "-c", "exit 0"))]
        install(runtimes, name)
        ends.append(slot.run(boxed("sh", image="gone:1")))
        ends.append(slot.run(boxed("sh", image="gone:1", kind="process")))
        ends.append(slot.run(boxed("sh", image="/no/vina.sif")))
        ends.append(slot.run(boxed("sh", image=f"/{'no' * 200}/vina.sif")))  # not just absent
        ends.append(slot.run(boxed("sh", image="{inputs.vina}")))
    (tmp_path / "a,b").mkdir()
    with slot_in(tmp_path / "a,b") as slot:
        ends.append(slot.run(boxed("sh", "-c", "exit 0")))
    for ended in ends:
        assert (ended.outcome, ended.refused) == (RELEASED, True)
        assert ended.error_class == "container-unusable", ended
    assert "not found" in str(ends[0].error)
    assert str(ends[1].error).endswith(("no such image", "could not open image"))


def test_resident_process_is_removed_with_its_slot(runtimes: Path, tmp_path: Path) -> None:
    """And not between tasks."""
    log = install(runtimes, "podman")
    talker = boxed(sys.executable, str(PAYLOADS / "talker.py"), kind="process")
    with slot_in(tmp_path) as slot:
        for _ in range(2):
            assert slot.run(talker, {"do": "echo", "x": 1}).outcome == DONE
        assert len(calls(log)) == 1
    (words, _), (removal, _) = calls(log)
    assert removal == ["rm", "--force", words[4]]


@pytest.mark.parametrize("name", ["podman", "apptainer"])
def test_payload_chooses_no_folder_that_a_later_task_is_given(
    runtimes: Path, tmp_path: Path, name: str
) -> None:
    """A payload that replaces its input link, as if it could, changes no mount of the next one.

    A container may write to the folder of its task alone, and only its files and links of inputs
    are in it too.
    """
    log, source = install(runtimes, name), BlobSource(tmp_path)
    secret, inputs = tmp_path / "secret", {"r": source.add(b"receptor")}
    secret.mkdir()
    attack = f"for link in {{inputs.r}}; do rm $link && ln -s {secret} $link && ls -l $link; done"
    with slot_in(tmp_path, blobs=source) as slot:  # type: ignore[arg-type]
        for _ in range(2):
            assert str(secret) in str(slot.run(boxed("sh", "-c", attack), inputs=inputs).tail)
    prefix = "APPTAINERENV_" if name == "apptainer" else ""
    for words, env in calls(log):
        if "rm" not in words[:1]:
            writable = [
                path for path, how in mounts_of(words).items() if how not in {",readonly", ",ro"}
            ]
            assert writable == [env[f"{prefix}TASKQ_SCRATCH"]]
            assert str(secret) not in mounts_of(words)
            link = words[-1].split()[3].rstrip(";")
            assert not Path(link).is_relative_to(writable[0])


@pytest.mark.thorough
def test_start_that_replaces_its_links_chooses_nothing_for_the_next_start_of_its_batch(
    runtimes: Path, tmp_path: Path
) -> None:
    """No folder is made anew between the starts of a search for the one that crashes."""
    log, source = install(runtimes, "podman"), BlobSource(tmp_path)
    secret, inputs = tmp_path / "secret", {"r": source.add(b"receptor")}
    secret.mkdir()
    attack = f"rm {{inputs.r}} && ln -s {secret} {{inputs.r}} && kill -9 $$"
    handler = {**boxed("sh", "-c", attack), "batch": 4}
    with slot_in(tmp_path, blobs=source) as slot:  # type: ignore[arg-type]
        slot.run_batch(handler, [{}] * 4, inputs=inputs)
    starts = [mounts_of(words) for words, _ in calls(log) if "rm" not in words[:1]]
    assert len(starts) > 2
    assert not any(str(secret) in mounts for mounts in starts)


SPOILER = """
import json, os, subprocess, sys
for line in sys.stdin:
    one = json.loads(line)
    if "task" in one:
        scratch = one["task"]["scratch"]
        print(json.dumps(dict(id=one["id"], result=dict(at=scratch))), flush=True)
        subprocess.run(["sh", "-c", sys.argv[1], "sh", os.path.dirname(scratch)])
"""


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["podman", "apptainer"])
@pytest.mark.parametrize("harm", ['rm -rf "$1"', 'rm -rf "$1"; touch "$1"'])
def test_resident_program_that_spoils_its_folder_is_replaced(
    runtimes: Path, tmp_path: Path, name: str, harm: str
) -> None:
    """It sees the folders of its tasks only within its own, which no other program gets."""
    log = install(runtimes, name)
    script = tmp_path / "spoiler.py"
    script.write_text(SPOILER)
    handler = boxed(sys.executable, str(script), harm, kind="process")
    with slot_in(tmp_path) as slot:
        ends: list[Ended] = []
        for _ in range(3):
            ends.append(slot.run(handler))
            wait_until(lambda: not at_of(ends[-1]).parent.is_dir())
        assert [ended.outcome for ended in ends] == [DONE] * 3, ends
    starts = [words for words, _ in calls(log) if "rm" not in words[:1]]
    places = [Path(path) for words in starts for path in mounts_of(words)]
    assert len(set(places)) == len(places) == len(ends)
    assert [at_of(ended).parent for ended in ends] == places


def at_of(ended: Ended) -> Path:
    """Return the folder that a task has named as its own."""
    assert ended.result is not None, ended
    return Path(str(ended.result["at"]))
