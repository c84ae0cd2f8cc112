"""Needs a cluster whose node is this machine, as k3s makes one; run by `make test-kubernetes`.

It is that of kubectl's current context, where the tests have a namespace of their own.
TASKQ_TEST_IMAGE names an image with Python; by default it is pulled.
"""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.fixtures.gateways import start_gateway  # noqa: F401  # a fixture, for the tests here


class Cluster:
    """A namespace of a cluster. table: settings of a pilot in it."""

    def __init__(self) -> None:
        self.namespace = f"taskq-{secrets.token_hex(4)}"
        self.table: dict[str, Any] = {
            "image": os.environ.get("TASKQ_TEST_IMAGE", "python:3.12-slim"),
            "namespace": self.namespace,
            "pod": '{"hostNetwork": true}',  # so that gateways of tests can be reached
        }

    def run(self, *words: object) -> str:
        """Run kubectl in the namespace and return what it says."""
        argv = ["kubectl", f"--namespace={self.namespace}", *map(str, words)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, f"{argv}: {done.stderr}"
        return done.stdout


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Give a namespace that all tests here share."""
    found = Cluster()
    found.run("create", "namespace", found.namespace)
    yield found
    found.run("delete", "namespace", found.namespace, "--wait=false")
