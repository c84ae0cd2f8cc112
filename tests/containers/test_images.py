"""The images of deploy/, built and started; pip and podman fetch what they are made of."""

from __future__ import annotations

import os
import subprocess

from taskq.model.version import VERSION
from tests.helpers.paths import ROOT

NAME = "localhost/taskq-built"


def test_images_are_built_and_start() -> None:
    """On the image with Python that `TASKQ_TEST_IMAGE` names, or on the Containerfile's."""
    base = os.environ.get("TASKQ_TEST_IMAGE")
    words = ["make", "image", f"IMAGE={NAME}", *([f"BASE={base}"] if base else [])]
    subprocess.run(words, cwd=ROOT, check=True)
    images = {f"{NAME}:{VERSION}": "--version", f"{NAME}-agent:{VERSION}": "version"}
    try:
        for image, word in images.items():
            argv = ["podman", "run", "--pull=never", "--rm", image, word]
            done = subprocess.run(argv, capture_output=True, text=True, check=True)
            assert VERSION in done.stdout
    finally:
        subprocess.run(["podman", "rmi", "--force", *images], capture_output=True, check=False)
