"""The programs that read the files of deploy/ take them.

They belong to the system, so this is run only where that was asked for: `make test-deploy`.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.helpers.paths import ROOT

DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))


def program(name: str, package: str) -> str:
    """Return the path of a program of the system."""
    path = shutil.which(name)
    assert path, f"this test needs {name}: `apt-get install {package}` as root"
    return path


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_systemd_takes_the_units(unit: Path, tmp_path: Path) -> None:
    """As `systemd-analyze verify` judges, with programs that are there."""
    taskq = Path(sys.executable).with_name("taskq")
    text = unit.read_text(encoding="utf-8").replace("/opt/taskq/bin/taskq", str(taskq))
    (tmp_path / unit.name).write_text(text.replace("User=taskq", "User=root"))
    done = subprocess.run(
        [program("systemd-analyze", "systemd"), "verify", "--man=no", tmp_path / unit.name],
        capture_output=True,
        text=True,
        check=False,
    )
    ours = [line for line in done.stderr.splitlines() if unit.name in line]
    assert (done.returncode, ours) == (0, [])


def test_kubectl_takes_the_kustomization() -> None:
    """Without a cluster; it prints what it would apply."""
    done = subprocess.run(
        [program("kubectl", "kubernetes-client"), "kustomize", DEPLOY / "kubernetes"],
        capture_output=True,
        text=True,
        check=True,
    )
    kinds = sorted(manifest["kind"] for manifest in yaml.safe_load_all(done.stdout))
    assert kinds == ["Deployment"] * 3 + ["PodDisruptionBudget", "Service"]
    assert "image: registry.example.org/taskq:" in done.stdout
