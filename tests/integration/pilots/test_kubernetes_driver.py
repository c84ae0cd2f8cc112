"""The driver of Kubernetes: its manifests, and what it makes of a cluster's words."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest

from taskq.pilots.drivers import Driver
from taskq.pilots.drivers.commands import BatchSystemError
from tests.helpers.programs import NAME, SECRET, Programs, driver_on
from tests.helpers.variants import rest_thorough

POD = {
    "nodeSelector": {"disk": "fast"},
    "tolerations": [{"operator": "Exists"}],
    "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
    "containers": [
        {
            "env": [{"name": "A", "value": "b"}],
            "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        }
    ],
}


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    """Give a kubectl that says nothing."""
    return Programs(tmp_path / "bin", "kubectl")


def driver(programs: Programs, **table: Any) -> Driver:
    """Return the driver that finds it."""
    return driver_on(programs, "kubernetes", image="python:3.12-slim", **table)


@pytest.mark.parametrize("release", ["1.30", "1.26", "1.28", "1.32", "1.34", "1.36"])
def test_manifests_are_what_the_published_schemas_say(
    programs: Programs, tmp_path: Path, release: str
) -> None:
    """Strictly: no field that a cluster would not know."""
    ca = tmp_path / "ca.pem"
    ca.write_text("certificate")
    programs.say("kubectl", f"cat > {programs.folder}/manifest")
    for table in (
        {},
        {"cores": 8, "memory": "16Gi", "gpus": "2", "pod": json.dumps(POD), "ca": str(ca)},
    ):
        made = driver(programs, **table)
        made.submit([NAME], made.script([NAME], "/c", ["taskq"]), None)
        items = json.loads((programs.folder / "manifest").read_text())["items"]
        assert [item["kind"] for item in items] == ["ConfigMap", "Secret", "Job"]
        for item in items:
            kubernetes_validate.validate(item, release, strict=True)


def test_additions_of_an_operator_to_the_manifest_are_kept(programs: Programs) -> None:
    """Next to what taskq depends on."""
    made = driver(programs, pod=json.dumps(POD), gpus="amd.com/gpu:2", time_limit="90m", cores=4)
    pod = json.loads(made.script([NAME], "/c", ["taskq"]))["spec"]["template"]["spec"]
    assert (pod["nodeSelector"], pod["activeDeadlineSeconds"]) == ({"disk": "fast"}, 5_400)
    (container,) = pod["containers"]
    assert container["env"] == [{"name": "A", "value": "b"}]
    assert [mount["mountPath"] for mount in container["volumeMounts"]] == [
        "/data",
        "/taskq",
        "/taskq/taskq-agent.pyz",
        "/taskq/token",
    ]
    assert [volume["name"] for volume in pod["volumes"]] == ["data", "taskq-work", "taskq-files"]
    assert container["resources"]["limits"] == {"cpu": "4", "amd.com/gpu": "2"}


def test_token_goes_through_standard_input(programs: Programs) -> None:
    """It is in no command line, and not in what is shown of a job."""
    made = driver(programs, context="prod", namespace="hpc")
    script = made.script([NAME], "/c", ["taskq"])
    made.submit([NAME], script, None)
    assert programs.arguments("kubectl") == (
        "--context=prod --namespace=hpc apply --server-side --force-conflicts "
        "--field-manager=taskq --filename=-"
    )
    assert SECRET not in script


def line(kind: str, name: str, job: str, status: dict[str, Any]) -> str:
    """Return a line as kubectl is asked to write it."""
    return json.dumps([kind, name, job, status])


def condition(
    kind: str, reason: str = "", message: str = "", status: str = "True"
) -> dict[str, Any]:
    """Return a condition of a status."""
    return {"type": kind, "status": status, "reason": reason, "message": message}


def pod(phase: str, conditions: Sequence[object] = (), **state: Any) -> dict[str, Any]:
    """Return the status of a pod. state: of its container, if that has one."""
    statuses = {"containerStatuses": [{"state": state}]} if state else {}
    return {"phase": phase, "conditions": [*conditions], **statuses}


FAILED = {"conditions": [condition("Failed", "BackoffLimitExceeded", "it has")]}
LIMIT = "Failed, BackoffLimitExceeded, it has"


@pytest.mark.parametrize(
    ("job", "pod", "expected"),
    rest_thorough(
        [
            (
                {"active": 1},
                pod("Pending", [condition("PodScheduled", "Unschedulable", "no node", "False")]),
                ("queued", "Pending, Unschedulable, no node", None, None),
            ),
            ({"active": 1}, pod("Running", running={}), ("running", "Running", None, None)),
            (FAILED, pod("Failed", terminated={"exitCode": 75}), ("ended", LIMIT, 75, None)),
            (
                FAILED,
                {"phase": "Failed", "reason": "DeadlineExceeded", "message": "too long"},
                ("ended", "Failed, DeadlineExceeded, too long", None, "time"),
            ),
            (
                FAILED,
                pod("Failed", [condition("DisruptionTarget", "Preempted")]),
                ("ended", LIMIT, None, "preempted"),
            ),
            (
                {"conditions": [condition("Complete")]},
                pod("Succeeded", terminated={"exitCode": 0}),
                ("ended", "Complete", 0, None),
            ),
            (
                {"active": 1},
                pod("Pending", waiting={"reason": "ImagePullBackOff", "message": "none"}),
                ("queued", "Pending, ImagePullBackOff, none", None, None),
            ),
            (
                FAILED,
                pod("Failed", terminated={"exitCode": 137, "reason": "OOMKilled"}),
                ("ended", LIMIT, 137, "memory"),
            ),
            ({}, None, ("queued", "Pending", None, None)),
            (
                {"conditions": [condition("FailureTarget")]},
                pod("Failed"),
                ("running", "Failed", None, None),
            ),
        ],
        4,
    ),
)
def test_states_are_those_of_jobs_and_their_pods(
    programs: Programs, job: dict[str, Any], pod: dict[str, Any] | None, expected: tuple[Any, ...]
) -> None:
    """A job that is over has said so itself."""
    lines = [line("Job", NAME, "", job)]
    lines += [] if pod is None else [line("Pod", f"{NAME}-x", NAME, pod)]
    lines.append(line("Job", "taskq-hpc-0a1b2c3d-2", "", {}))
    programs.say("kubectl", "cat <<'END'\n" + "\n".join(lines) + "\nEND")
    (seen,) = driver(programs).jobs([NAME]).values()
    assert (seen.state, seen.why, seen.exit_code, seen.reason) == expected


@pytest.mark.parametrize(
    "body",
    rest_thorough(
        [
            "echo 'The connection to the server was refused' >&2; exit 1",
            "echo rubbish",
            "echo '[1]'",
            "echo '{}'",
            """echo '["Job", "a", "", null]'""",
            f"""echo '["Job", "{NAME}", "", {{"conditions": [null]}}]'""",
            f"""echo '["Job", "{NAME}", "", {{"conditions": [{{"status": "True"}}]}}]'""",
            "printf '\\000\\377\\n'",
        ],
        3,
    ),
)
def test_rubbish_is_an_error_and_not_the_end_of_a_job(programs: Programs, body: str) -> None:
    """Nothing is concluded from it."""
    programs.say("kubectl", body)
    with pytest.raises(BatchSystemError, match="kubectl"):
        driver(programs).jobs([NAME])


def test_only_a_job_that_waits_is_deleted(programs: Programs) -> None:
    """One that began meanwhile goes on."""
    made = driver(programs)
    submitted = made.submit([NAME], made.script([NAME], "/c", ["taskq"]), None)
    for phase, deletes in (("Running", False), ("Pending", True)):
        lines = [line("Job", NAME, "", {}), line("Pod", f"{NAME}-x", NAME, {"phase": phase})]
        programs.say("kubectl", "cat <<'END'\n" + "\n".join(lines) + "\nEND")
        made.cancel(submitted)
        assert programs.arguments("kubectl").startswith("delete") == deletes
