"""Needs podman and a static busybox, so it is run only where asked: `make test-containers`."""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile

import pytest

IMAGE = "taskq-test:1"
_LINKS = ("sh", "sleep", "touch", "ls", "cat", "chmod")


@pytest.fixture(scope="session")
def image() -> None:
    """Let podman have an image with a busybox, and nothing else."""
    busybox = shutil.which("busybox")
    assert busybox is not None
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.add(busybox, "bin/busybox")
        for name in _LINKS:
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            archive.addfile(link)
    command = ["podman", "import", "-", IMAGE]
    subprocess.run(command, input=packed.getvalue(), capture_output=True, check=True)
