"""The driver of Kubernetes on a real cluster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from taskq.pilots.drivers.commands import BatchSystemError
from taskq.pilots.reconcile import SeenJob
from tests.helpers.driver_contract import SECRET, BatchScene, DriverContract
from tests.kubernetes.conftest import Cluster


def _scene(cluster: Cluster, folder: Path) -> BatchScene:
    """Return the namespace, where no node has the label that some jobs want."""

    def end(name: str, _: SeenJob) -> None:
        cluster.run("delete", "job", name, "--wait=false")

    nowhere = {"hostNetwork": True, "nodeSelector": {"taskq/none": "here"}}
    return BatchScene(
        "kubernetes",
        folder,
        end,
        table=cluster.table,
        stuck={"pod": json.dumps(nowhere)},
        keeps_output=False,  # logs go with the job
    )


class TestKubernetes(DriverContract):
    """What every driver promises."""

    @pytest.fixture
    def scene(self, cluster: Cluster, tmp_path: Path) -> BatchScene:
        """Give the namespace."""
        return _scene(cluster, tmp_path)


def test_kubernetes_job_is_submitted_once_if_two_ask_at_once(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Its name is that of the Job."""
    scene = _scene(cluster, tmp_path)
    driver = scene.driver()
    name = scene.submit(driver)
    running = scene.wait_for(driver, name, "running")
    scene.submit(driver)
    assert cluster.run("get", "pods", f"--selector=taskq/job={name}", "-oname").count("pod/") == 1
    scene.end(name, running)


def test_reason_why_a_job_waits_is_given_in_the_words_of_the_cluster(
    cluster: Cluster, tmp_path: Path
) -> None:
    """In the words of the cluster."""
    scene = _scene(cluster, tmp_path)
    driver = scene.driver(**scene.stuck)
    unplaced = scene.submit(driver)
    without = scene.driver(image="localhost/no-such-image:1")
    imageless = scene.submit(without, 2)
    scene.wait_for(driver, unplaced, "queued")

    def why(name: str) -> str:
        return driver.jobs([name])[name].why or ""

    scene.wait(lambda: "Unschedulable, 0/1 nodes are available" in why(unplaced))
    scene.wait(lambda: "ErrImage" in why(imageless) or "ImagePullBackOff" in why(imageless))


def test_pod_that_has_had_its_time_is_ended(cluster: Cluster, tmp_path: Path) -> None:
    """Also if its agent does not know the time."""
    scene = _scene(cluster, tmp_path)
    driver = scene.driver()
    name = f"{scene.prefix}-1"
    manifest = json.loads(driver.script([name], "/c", ["taskq"]))
    manifest["spec"]["template"]["spec"]["activeDeadlineSeconds"] = 3
    driver.submit([name], json.dumps(manifest), None)
    ended = scene.wait_for(driver, name, "ended")
    assert "DeadlineExceeded" in (ended.why or "")
    assert ended.reason == "time"


def test_refusal_of_the_cluster_is_reported_in_its_words(cluster: Cluster, tmp_path: Path) -> None:
    """No job was made."""
    scene = _scene(cluster, tmp_path)
    driver = scene.driver(pod='{"tolerations": "none"}')
    with pytest.raises(BatchSystemError, match="tolerations"):
        scene.submit(driver)
    assert driver.jobs([f"{scene.prefix}-1"]) == {}


def test_token_is_in_the_secret_alone(cluster: Cluster, tmp_path: Path) -> None:
    """Neither in an annotation nor in a pod."""
    scene = _scene(cluster, tmp_path)
    name = scene.submit(scene.driver())
    secret = json.loads(
        cluster.run("get", "secret", scene.prefix, "-ojson", "--show-managed-fields")
    )
    encoded = secret["data"].pop("token")
    assert encoded not in json.dumps(secret)
    for kind in ("job", "pods", "configmap"):
        assert SECRET not in cluster.run("get", kind, "-ojson")
        assert encoded not in cluster.run("get", kind, "-ojson")
    cluster.run("delete", "job", name, "--wait=false")
