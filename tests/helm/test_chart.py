"""Helm takes the chart, and renders the manifests of deploy/kubernetes.

Helm belongs to the system, so this is run only where that was asked for: `make test-helm`.
"""

from __future__ import annotations

import subprocess

import kubernetes_validate
import pytest

from tests.helpers.chart import CHART, MANIFESTS, head, helm, objects, rendered
from tests.helpers.deployed_commands import agent_options, taskq_options


def test_lint_finds_nothing() -> None:
    """Warnings count."""
    assert "0 chart(s) failed" in helm("lint", "--strict", CHART).stdout


def test_manifests_are_what_the_chart_renders() -> None:
    """With the values that it comes with."""
    files = rendered()
    assert {name: head() + text for name, text in files.items()} == {
        name: (MANIFESTS / name).read_text(encoding="utf-8") for name in files
    }


def test_other_values_are_objects_that_kubernetes_takes() -> None:
    """Names, images, options and sizes go where they belong."""
    files = rendered(
        "image=example.org/queue",
        "tag=0.2.0",
        "gateway.options={--pages}",
        "gateway.service=LoadBalancer",
        "keeper.options={--smtp=smtp://mail.example.org,--mail-from=a@example.org}",
        "agents.options={--offer=gpu}",
        "agents.slots=8",
    )
    found = [manifest for text in files.values() for manifest in objects(text)]
    for manifest in found:
        kubernetes_validate.validate(manifest, "1.36", strict=True)
    (service,) = [manifest for manifest in found if manifest["kind"] == "Service"]
    assert service["spec"]["type"] == "LoadBalancer"
    containers = {
        manifest["spec"]["template"]["spec"]["containers"][0]["name"]: manifest["spec"]["template"][
            "spec"
        ]["containers"][0]
        for manifest in found
        if manifest["kind"] == "Deployment"
    }
    assert (
        containers["gateway"]["image"] == containers["keeper"]["image"] == "example.org/queue:0.2.0"
    )
    assert taskq_options(containers["gateway"]["args"])["pages"]
    assert taskq_options(containers["keeper"]["args"])["mail_from"] == "a@example.org"
    given = agent_options(containers["agent"]["args"])
    assert (given["offers"], given["slots"]) == (["gpu"], 8)


def test_agents_can_be_left_to_pilots() -> None:
    """Then the chart has gateways and a keeper."""
    assert "agents.yaml" not in rendered("agents.replicas=0")


@pytest.mark.parametrize(
    "wrong",
    [
        "gateway.replica=3",
        "gateway.replicas=0",
        "gateway.dsn=postgresql://taskq:secret@postgres/taskq",
        "agents.options={offer}",
    ],
)
def test_values_that_cannot_be_meant_are_refused(wrong: str) -> None:
    """A misspelt name, a gateway that is none, a password for all to see, an option without --."""
    with pytest.raises(subprocess.CalledProcessError) as refused:
        rendered(wrong)
    assert wrong.split("=", maxsplit=1)[0].rpartition(".")[2] in refused.value.stderr
