"""Needs a program of the system, so it is run only where that was asked for: `make test-proxy`."""

from __future__ import annotations

from tests.fixtures.gateways import start_gateway  # noqa: F401  # a fixture, for the tests here
