"""What programs get of a node: binds in containers, and variables with and without these."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Any

import pytest

from taskq_agent.binds import allowance, of_site
from taskq_agent.handlers.base import Ended
from taskq_agent.protocol import DONE, RELEASED
from tests.helpers.runtimes import boxed, calls, files_read, folder_of_runtimes, install
from tests.helpers.slot_harness import command, python, shell, slot_in

KEY = "oe-licence-8c1f"
RUNTIMES = ("podman", "docker", "apptainer", "udocker")


@pytest.fixture
def runtimes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a folder for stand-ins, the only one of PATH next to some programs."""
    folder = folder_of_runtimes(tmp_path)
    monkeypatch.setenv("PATH", str(folder))
    return folder


def bound(words: list[str]) -> list[tuple[str, str, bool]]:
    """Return source, destination and whether it is read-only of all that a call binds, in order."""
    found = []
    for before, word in itertools.pairwise(words):
        if before == "--mount":
            parts = dict(part.partition("=")[::2] for part in word.split(","))
            read_only = "ro" in parts or "readonly" in parts
            found.append((parts["source"], parts["destination"], read_only))
        elif word.startswith("--volume="):
            source, inside = word[len("--volume=") :].split(":")
            found.append((source, inside, False))  # udocker keeps nothing from being written
    return found


@pytest.mark.parametrize("name", RUNTIMES)
def test_container_sees_what_the_site_binds_and_what_it_allows(
    runtimes: Path, tmp_path: Path, name: str
) -> None:
    """The outer folders come before those within them, the task's own last."""
    log = install(runtimes, name)
    for folder in ("cvmfs", "open/data"):
        (tmp_path / folder).mkdir(parents=True)
    handler = boxed("sh", "-c", "exit 0", binds=[f"{tmp_path}/open/data:/x/library:rw"])
    settings: dict[str, Any] = {
        "container_runtime": name,
        "binds": (of_site(f"{tmp_path}/cvmfs:/x"), of_site("/no/such:optional")),
        "allow_binds": (allowance(f"{tmp_path}/open:rw"),),
    }
    with slot_in(tmp_path, **settings) as slot:
        assert slot.run(handler).outcome == DONE
    words, env = calls(log)[0]
    enforced = name != "udocker"
    expected = [
        (str(tmp_path / "cvmfs"), "/x", enforced),
        (str(tmp_path / "open" / "data"), "/x/library", False),
    ]
    mounts = bound(words)
    assert [mount for mount in mounts if mount[1].startswith("/x")] == expected
    scratch = env.get("TASKQ_SCRATCH") or env["APPTAINERENV_TASKQ_SCRATCH"]
    assert (scratch, scratch, False) in mounts
    assert len(mounts) == 3


@pytest.mark.parametrize("name", RUNTIMES)
def test_folder_with_automounts_receives_them_in_containers_of_services(
    runtimes: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Apptainer does that itself; the task's own folder, and all others, are left as they are."""
    log, table = install(runtimes, name), tmp_path / "mountinfo"
    for folder in ("cvmfs", "data"):
        (tmp_path / folder).mkdir()
    table.write_text(f"9 8 0:9 / {tmp_path.resolve()}/cvmfs rw shared:1 - autofs auto.cvmfs rw\n")
    monkeypatch.setattr("taskq_agent.automounts._TABLE", table)
    binds = tuple(of_site(f"{tmp_path}/{folder}") for folder in ("cvmfs", "data"))
    with slot_in(tmp_path, container_runtime=name, binds=binds) as slot:
        assert slot.run(boxed("sh", "-c", "exit 0")).outcome == DONE
    words, _ = calls(log)[0]
    received = [word for word in words if "rslave" in word]
    source = f"type=bind,source={tmp_path}/cvmfs,destination={tmp_path}/cvmfs"
    expected = f"{source},readonly,bind-propagation=rslave"
    assert received == [expected] * (name in {"docker", "podman"})


def refusal(ended: Ended, error_class: str) -> str:
    """Return the reason for which a node refuses a campaign."""
    assert (ended.outcome, ended.refused, ended.error_class) == (RELEASED, True, error_class), ended
    return str(ended.error)


@pytest.mark.parametrize("kind", ["command", "process"])
def test_campaign_that_binds_what_the_agent_does_not_allow_is_refused(
    runtimes: Path, tmp_path: Path, kind: str
) -> None:
    """And no container is begun."""
    log = install(runtimes, "podman")
    with slot_in(tmp_path) as slot:
        ended = slot.run(boxed("sh", "-c", "exit 0", kind=kind, binds=["/etc:/mnt"]))
        text = refusal(ended, "bind-unavailable")
        assert text == "this agent binds no '/etc', unless it has --allow-bind /etc"
        mend = slot.run(boxed("sh", "-c", "exit 0", binds=["/etc/../root"]))
        refusal(mend, "handler-invalid")
    assert not log.exists()


SECRETIVE = 'test "$OE_LICENSE" = {key} && test "$MODE" = "fast 1"'


@pytest.mark.parametrize("name", RUNTIMES)
def test_no_value_of_a_variable_is_among_arguments(
    runtimes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Other users of the node see those."""
    monkeypatch.setenv("OE_LICENSE", KEY)
    log = install(runtimes, name)
    given = {"env": {"MODE": "fast {params.n}"}, "pass_env": ["OE_LICENSE"]}
    settings: dict[str, Any] = {"container_runtime": name, "allow_env": ("OE_LICENSE",)}
    with slot_in(tmp_path, **settings) as slot:
        handler = boxed("sh", "-c", SECRETIVE.format(key=KEY), **given)
        ended = slot.run(handler, params={"n": 1})
        assert ended.outcome == DONE, ended
    words, _ = calls(log)[0]
    assert not [word for word in words[: words.index("-c")] if KEY in word or "fast" in word]
    assert KEY not in repr(ended)
    if name in ("podman", "docker"):
        assert files_read(log)[0].splitlines() == [f"OE_LICENSE={KEY}", "MODE=fast 1"]
        assert not [*tmp_path.rglob("*variables*")]


@pytest.mark.parametrize("name", ["podman", "docker", "apptainer"])
def test_runtime_obeys_no_variable_that_a_campaign_sets(
    runtimes: Path, tmp_path: Path, name: str
) -> None:
    """It could bind more than the site allows, or run something else."""
    log = install(runtimes, name)
    steering = {
        "PATH": "/evil",
        "LD_PRELOAD": "/evil.so",
        "PYTHONPATH": "/evil",
        "HOME": "/evil",
        "DOCKER_HOST": "tcp://evil",
        "CONTAINERS_CONF": "/evil",
        "APPTAINER_BIND": "/etc",
    }
    with slot_in(tmp_path, container_runtime=name) as slot:
        slot.run(boxed("/bin/true", env=steering))
    _, env = calls(log)[0]
    assert {name: env.get(name) for name in steering if env.get(name) == steering[name]} == {}
    seen = "".join(files_read(log)) + "".join(f"{k}={v}\n" for k, v in env.items())
    assert "LD_PRELOAD=/evil.so" in seen


def test_udocker_refuses_what_it_would_obey_itself(runtimes: Path, tmp_path: Path) -> None:
    log = install(runtimes, "udocker")
    with slot_in(tmp_path, container_runtime="udocker") as slot:
        for name in ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "UDOCKER_DIR"):
            ended = slot.run(boxed("sh", "-c", "exit 0", env={name: "/x"}))
            assert f"would obey {name}" in refusal(ended, "container-unusable")
    assert not log.exists()


@pytest.mark.parametrize("boxes", [False, True])
def test_variable_that_the_agent_does_not_pass_is_never_silently_empty(
    runtimes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, boxes: bool
) -> None:
    """With a container and without one: not allowed, not set, or more than a line."""
    install(runtimes, "podman")
    program = ["sh", "-c", "exit 0"]
    plain = boxed(*program) if boxes else command(*program)
    handler = {**plain, "pass_env": ["OE_LICENSE"]}
    monkeypatch.setenv("OE_LICENSE", KEY)
    with slot_in(tmp_path) as slot:
        text = refusal(slot.run(handler), "variable-unavailable")
        assert text == "this agent passes no OE_LICENSE, unless it has --allow-env OE_LICENSE"
    with slot_in(tmp_path, allow_env=("OE_LICENSE",)) as slot:
        assert slot.run(handler).outcome == DONE
    monkeypatch.setenv("OE_LICENSE", f"{KEY}\n{KEY}")
    with slot_in(tmp_path, allow_env=("OE_LICENSE",)) as slot:
        text = refusal(slot.run(handler), "variable-unavailable")
        assert "more than one line" in text
        assert KEY not in text
    monkeypatch.delenv("OE_LICENSE")
    with slot_in(tmp_path, allow_env=("OE_LICENSE",)) as slot:
        assert "is not set" in refusal(slot.run(handler), "variable-unavailable")


def test_program_without_a_container_gets_its_variables_too(tmp_path: Path) -> None:
    """Also a Python function; what taskq computes gives way, such as the number of threads."""
    env = {"env": {"OMP_NUM_THREADS": "7", "MODE": "a=b {{}}"}}
    with slot_in(tmp_path) as slot:
        script = 'echo "{\\"n\\": \\"$OMP_NUM_THREADS $MODE\\"}"'
        handler = {**shell(script), **env}
        ended = slot.run(handler, resources={"cores": 2})
        assert ended.result == {"n": "7 a=b {}"}
        ended = slot.run({**python("variables"), **env}, {"names": ["MODE"]})
        assert ended.result is not None, ended
        assert ended.result["MODE"] == "a=b {}"


@pytest.mark.parametrize(
    ("image", "runtime", "fits"),
    [
        ("folder", "podman", True),
        ("folder", "apptainer", True),
        ("folder", "udocker", True),
        ("folder", "docker", False),
        ("file.sif", "apptainer", True),
        ("file.sif", "podman", False),
        ("file.sif", "udocker", False),
    ],
)
def test_image_by_its_path_needs_a_runtime_that_runs_it(
    runtimes: Path, tmp_path: Path, image: str, runtime: str, fits: bool
) -> None:
    log = install(runtimes, runtime)
    path = tmp_path / f"vina-{image}"
    path.touch() if image.endswith(".sif") else path.mkdir()
    with slot_in(tmp_path, container_runtime=runtime) as slot:
        ended = slot.run(boxed("sh", "-c", "exit 0", image=str(path)))
    if not fits:
        assert f"{runtime} cannot run" in refusal(ended, "container-unusable")
        return
    assert ended.outcome == DONE, ended
    words, _ = calls(log)[0]
    at = {"podman": f"{path}:O", "udocker": f"--location={path}"}.get(runtime, str(path))
    assert at in words
    assert ("--rootfs" in words) == (runtime == "podman")


DIGEST = f"sha256:{'5' * 64}"


@pytest.mark.parametrize(
    ("runtime", "given", "called"),
    [
        ("podman", f"docker.io/ada/vina:1.2@{DIGEST}", f"docker.io/ada/vina:1.2@{DIGEST}"),
        ("docker", f"docker://ada/vina@{DIGEST}", f"ada/vina@{DIGEST}"),
        ("apptainer", f"ada/vina:1.2@{DIGEST}", f"docker://ada/vina@{DIGEST}"),
        ("apptainer", "oras://ada/vina:1.2", "oras://ada/vina:1.2"),
        (
            "udocker",
            f"reg.example.org:5000/vina:1.2@{DIGEST}",
            f"reg.example.org:5000/vina@{DIGEST}",
        ),
        ("udocker", "docker://ada/vina:1.2", "ada/vina:1.2"),
    ],
)
def test_image_of_a_registry_has_a_name_for_each_runtime(
    runtimes: Path, tmp_path: Path, runtime: str, given: str, called: str
) -> None:
    """A digest takes the place of the tag where a runtime takes no two."""
    log = install(runtimes, runtime)
    with slot_in(tmp_path, container_runtime=runtime) as slot:
        assert slot.run(boxed("sh", "-c", "exit 0", image=given)).outcome == DONE
    assert called in calls(log)[0][0]


def test_udocker_is_used_only_if_it_is_named(runtimes: Path, tmp_path: Path) -> None:
    """It isolates nothing, which the others do."""
    log = install(runtimes, "udocker")
    handler = boxed("sh", "-c", "exit 0")
    with slot_in(tmp_path) as slot:
        assert "podman, docker" in refusal(slot.run(handler), "container-unusable")
    with slot_in(tmp_path, container_runtime="udocker") as slot:
        ended = slot.run(handler)
    assert (ended.outcome, "cpu_s" in ended.phases) == (DONE, True)
    (words, env), (removal, _) = calls(log)
    root = ["--allow-root"] * (os.geteuid() == 0)
    name = next(word for word in words if word.startswith("--name="))
    assert removal == [*root, "rm", "-f", name[len("--name=") :]]
    assert f"--workdir={env['TASKQ_SCRATCH']}" in words
