"""Needs engines of Debian, so it is run only where that was asked for: `make test-engines`."""

from __future__ import annotations

from tests.fixtures.gateways import start_gateway  # noqa: F401  # a fixture, for the tests here
