"""docs/surface.txt lists what users build on; a change of it shows in a diff."""

from __future__ import annotations

from tests.helpers.surface import FILE, page


def test_surface_is_written_down() -> None:
    """`make schema` writes it. A line that goes is a promise that ends: see docs/stability.md."""
    assert FILE.read_text(encoding="utf-8") == page()


def test_surface_has_names_of_every_kind() -> None:
    """Otherwise the test above could not fail for a kind."""
    lines = page().splitlines()
    for name in (
        "campaign file: limits.time_limit_s",
        "command: seed --key-field",
        "exit code: Unavailable 69",
        "metric: taskq_front_misses_total",
        "metric: taskq_owner_quota_bytes",
        "protocol: POST /v1/exchange",
        "python: Campaign.seed(",
        "python: Status.working",
        "sql: cancel(",
        "variable: TASKQ_DSN",
    ):
        assert [line for line in lines if line.startswith(name)], name
