"""Gateways and database in a line, and in words."""

from __future__ import annotations

from dataclasses import replace

from taskq.diagnosis.servers import GatewayLoad, ServerLoad, Servers

GATEWAY = GatewayLoad("n1:8443", "1", 3_000, 1_234.5, True, 2.0)
DATABASE = ServerLoad(False, "18.0", 3 * 2**30, 34, 100, 2.5, 2, 0.04)


def test_line_tells_what_is_there_and_what_is_wrong() -> None:
    """In 80 columns, if nothing is wrong."""
    others = [replace(GATEWAY, name="n2", front=False), replace(GATEWAY, name="n3", silent_s=90.0)]
    line = Servers([GATEWAY, *others], DATABASE).line()
    assert line == (
        "2 gateways  2,469/s exchanges  1 SILENT  FRONT AVOIDED  3 GiB  34/100 connections"
        "  snapshot 2.5 s  standby 0.0 s behind"
    )
    assert [one.state for one in others] == ["front avoided", "silent for 1 min 30 s"]
    usual = Servers([GATEWAY, GATEWAY], replace(DATABASE, oldest_s=None, lag_s=None))
    assert len(usual.line()) <= 80
    assert Servers([], None).line() == ""
    assert Servers([replace(GATEWAY, silent_s=90.0)], None).line() == "0 gateways  1 SILENT"


def test_facts_leave_out_what_is_not_known() -> None:
    """As of a login that may not see what others do."""
    assert dict(DATABASE.facts())["standbys"] == "2, 0.0 s behind at most"
    bare = replace(DATABASE, standby=True, oldest_s=None, standbys=0, lag_s=None)
    assert dict(bare.facts()) == {
        "database": "standby, PostgreSQL 18.0",
        "size": "3 GiB",
        "connections": "34 of 100",
    }
