"""Manifests of Kubernetes: what the schemas take, and what they cannot tell."""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from taskq.model.version import VERSION
from tests.helpers.chart import CHART, MANIFESTS, head, objects
from tests.helpers.deployed_commands import agent_options, taskq_options
from tests.helpers.paths import ROOT
from tests.helpers.variants import rest_thorough

OBJECTS = [
    (path.name, manifest)
    for path in sorted(MANIFESTS.glob("*.yaml"))
    if path.name != "kustomization.yaml"
    for manifest in objects(path.read_text(encoding="utf-8"))
]
RUNNING = [(name, record) for name, record in OBJECTS if record["kind"] in {"Deployment", "Job"}]
each_running = pytest.mark.parametrize(
    "manifest", [record for _, record in RUNNING], ids=[name for name, _ in RUNNING]
)


def of_kind(kind: str) -> dict[str, Any]:
    """Return the one manifest of a kind."""
    (manifest,) = [record for _, record in OBJECTS if record["kind"] == kind]
    return manifest


def pod_of(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return what a manifest says of its pods."""
    return dict(manifest["spec"]["template"]["spec"])


def container_of(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return the one container of a manifest."""
    (container,) = pod_of(manifest)["containers"]
    return dict(container)


def options_of(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return what taskq, or the agent, understands of the container's command line."""
    container = container_of(manifest)
    parse = agent_options if container["name"] == "agent" else taskq_options
    return parse(container["args"])


def secret_keys(manifest: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each Secret that is mounted, with each key of it."""
    for volume in pod_of(manifest)["volumes"]:
        for item in volume.get("secret", {}).get("items", []):
            yield volume["secret"]["secretName"], item["key"]


@pytest.mark.parametrize("release", rest_thorough(["1.30", "1.26", "1.28", "1.32", "1.34", "1.36"]))
def test_manifests_are_what_the_published_schemas_say(release: str) -> None:
    """Strictly, all of the folder: no field that a cluster would not know."""
    for _, manifest in OBJECTS:
        kubernetes_validate.validate(manifest, release, strict=True)


def test_kustomization_has_all_that_stays() -> None:
    """The Job is applied by itself; images without a registry are named there."""
    whole = yaml.safe_load((MANIFESTS / "kustomization.yaml").read_text(encoding="utf-8"))
    names = {name for name, _ in OBJECTS}
    assert set(whole["resources"]) == names - {"agents-job.yaml"}
    used = {container_of(record)["image"] for name, record in RUNNING if name in whole["resources"]}
    assert {f"{image['name']}:{image['newTag']}" for image in whole["images"]} == used


def test_manifests_are_of_the_chart_as_it_is() -> None:
    """`make manifests` writes them, and needs Helm; `make test-helm` compares the text itself."""
    for name in ("gateway.yaml", "keeper.yaml", "agents.yaml"):
        assert (MANIFESTS / name).read_text(encoding="utf-8").startswith(head())
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert (chart["version"], chart["appVersion"]) == (VERSION, VERSION)


def test_agents_of_the_job_are_those_of_the_deployment() -> None:
    """Apart from the options that let them begin apart, and leave."""
    stay, leave = (
        next(record for name, record in RUNNING if name == file)
        for file in ("agents.yaml", "agents-job.yaml")
    )
    more = {*container_of(leave)["args"]} - {*container_of(stay)["args"]}
    assert more == {"--idle-timeout=5m", "--spread=30"}
    pod = deepcopy(pod_of(leave))
    assert pod.pop("restartPolicy") == "Never"
    pod["containers"][0]["args"] = container_of(stay)["args"]
    assert pod == pod_of(stay)


@each_running
def test_commands_parse_and_their_files_are_mounted(manifest: dict[str, Any]) -> None:
    """Also those of the environment; nothing else is writable than a volume of the pod's own."""
    options_of(manifest)
    container, volumes = container_of(manifest), pod_of(manifest)["volumes"]
    items = {
        volume["name"]: {item["path"] for item in volume.get("secret", {}).get("items", [])}
        for volume in volumes
    }
    mounts = {mount["mountPath"]: items[mount["name"]] for mount in container["volumeMounts"]}
    values = [record["value"] for record in container["env"]]
    for file in re.findall(
        r"(?:^|=)(/etc/\S+)", "\n".join([*container["args"], *values]), re.MULTILINE
    ):
        assert Path(file).name in mounts[str(Path(file).parent)]
    for mount in container["volumeMounts"]:
        assert mount.get("readOnly", False) == bool(items[mount["name"]])


@each_running
def test_pods_are_not_root_and_have_limits(manifest: dict[str, Any]) -> None:
    """No rights, no writing outside of volumes, no account and no variables of the cluster."""
    pod, container = pod_of(manifest), container_of(manifest)
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["runAsUser"] == pod["securityContext"]["fsGroup"] == 10_001
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not pod["automountServiceAccountToken"]
    assert not pod["enableServiceLinks"], "a Service would make variables that begin with TASKQ_"
    assert container["resources"]["limits"]["memory"]


@each_running
def test_secrets_are_files_that_the_page_says_how_to_make(manifest: dict[str, Any]) -> None:
    """No password in a command line or a variable; each key stands in docs/fleet.md."""
    container = container_of(manifest)
    page = (ROOT / "docs/fleet.md").read_text(encoding="utf-8")
    commands = re.findall(r"^kubectl create secret generic (\S+) (.*)$", page, re.MULTILINE)
    documented = {
        (name, key) for name, rest in commands for key in re.findall(r"--from-file=([^\s=]+)", rest)
    }
    assert {*secret_keys(manifest)} <= documented
    assert all("valueFrom" not in value for value in container["env"])
    assert not re.search(r"tq[ems]_|password|//\w+:", str([container["args"], container["env"]]))


@each_running
def test_pods_have_the_time_that_their_program_asks_for(manifest: dict[str, Any]) -> None:
    """Between SIGTERM and SIGKILL."""
    given = options_of(manifest)
    asked = sum(given.get(name) or 0 for name in ("drain_s", "grace_s", "stop_s", "farewell_s"))
    assert asked < pod_of(manifest).get("terminationGracePeriodSeconds", 30)


def test_all_that_is_about_gateways_finds_them() -> None:
    """Probes, Service, budget and agents name what the Deployment of gateways has."""
    gateway = next(record for name, record in RUNNING if name == "gateway.yaml")
    container, service = container_of(gateway), of_kind("Service")
    (port,) = container["ports"]
    assert port["containerPort"] == options_of(gateway)["listen"][1]
    probed = {
        probe: container[f"{probe}Probe"]["httpGet"]
        for probe in ("startup", "liveness", "readiness")
    }
    for probe, path in (
        ("startup", "/healthz"),
        ("liveness", "/healthz"),
        ("readiness", "/readyz"),
    ):
        assert probed[probe] == {"path": path, "port": port["name"], "scheme": "HTTPS"}
    (served,) = service["spec"]["ports"]
    assert (served["targetPort"], served["port"]) == (port["name"], 443)
    labels = gateway["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"] == labels
    budget = of_kind("PodDisruptionBudget")["spec"]
    assert budget["selector"]["matchLabels"] == labels
    assert budget["minAvailable"] < gateway["spec"]["replicas"]
    for name, manifest in RUNNING:
        if name.startswith("agents"):
            assert options_of(manifest)["gateways"] == [f"https://{service['metadata']['name']}"]
        if manifest["kind"] == "Deployment":
            assert (
                manifest["spec"]["selector"]["matchLabels"]
                == manifest["spec"]["template"]["metadata"]["labels"]
            )


def test_agents_of_the_job_leave_and_those_of_the_deployment_stay() -> None:
    """Else pods would be started again and again, or for ever."""
    agents = {name: record for name, record in RUNNING if name.startswith("agents")}
    given = {name: options_of(agent) for name, agent in agents.items()}
    assert given["agents.yaml"].get("idle_timeout_s") is None
    assert given["agents-job.yaml"]["idle_timeout_s"] == 300
    assert pod_of(agents["agents-job.yaml"])["restartPolicy"] == "Never", (
        "podFailurePolicy wants it"
    )
    assert not any(record["until_empty"] for record in given.values())
