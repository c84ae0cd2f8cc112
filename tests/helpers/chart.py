"""The chart of Helm, and the manifests of deploy/kubernetes, which it renders.

`make manifests` writes them. They hold the digest of the chart that they are of, so that a test can
tell that they are up to date where there is no Helm.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Final

import yaml

from tests.helpers.paths import ROOT

CHART: Final = ROOT / "deploy/helm/taskq"
MANIFESTS: Final = ROOT / "deploy/kubernetes"
#: The oldest release that the manifests are tested with.
KUBERNETES: Final = "1.26"


def helm(*words: object, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run Helm, which must be installed."""
    path = shutil.which("helm")
    assert path, (
        "this needs helm 3 in PATH: see https://helm.sh/docs/intro/install, or "
        "`go install helm.sh/helm/v3/cmd/helm@v3.22.0`"
    )
    return subprocess.run(
        [path, *map(str, words)], capture_output=True, text=True, check=check, cwd=ROOT
    )


def rendered(*settings: str) -> dict[str, str]:
    """Return the manifests by file, with these values instead of the chart's."""
    changed = [word for setting in settings for word in ("--set", setting)]
    with tempfile.TemporaryDirectory() as folder:
        where = ("--kube-version", KUBERNETES, "--output-dir", folder)
        helm("template", "taskq", CHART, *where, *changed)
        files = sorted(Path(folder).rglob("*.yaml"))
        return {path.name: path.read_text(encoding="utf-8").removeprefix("---\n") for path in files}


def digest() -> str:
    """Return the SHA-256 of the chart's files."""
    summed = hashlib.sha256()
    for path in sorted(path for path in CHART.rglob("*") if path.is_file()):
        summed.update(f"{path.relative_to(CHART)}\n".encode() + path.read_bytes())
    return summed.hexdigest()


def head() -> str:
    """Return the first line of each manifest."""
    return f"# Written by `make manifests` from deploy/helm/taskq; its SHA-256: {digest()}\n"


def objects(text: str) -> list[dict[str, Any]]:
    """Return the objects in a file."""
    return [value for value in yaml.safe_load_all(text) if value is not None]


if __name__ == "__main__":
    for name, text in rendered().items():
        (MANIFESTS / name).write_text(head() + text, encoding="utf-8")
