"""docs/production.md can be typed in order: passwords, TLS, tokens, an agent, a restore."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from taskq.embedded import Server
from taskq.embedded.installation import locate
from tests.fixtures.servers import make_home
from tests.helpers.tutorial import TUTORIALS, readers_shell
from tests.helpers.waiting import free_port

pytestmark = pytest.mark.thorough


def test_production_is_set_up_from_an_empty_database(tmp_path: Path) -> None:
    """With the names of this machine in the place of the page's."""
    home = make_home()
    (home / "conf" / "user.conf").write_text("")  # as safe as `db check` asks for
    port, gateway = free_port(), free_port()
    server = Server(home)
    administrator = conninfo_to_dict(server.up(port=port).dsn)
    environment = {
        "PATH": f"{locate().bin_dir}{os.pathsep}{os.environ['PATH']}",
        "PGHOST": str(administrator["host"]),
        "PGPORT": str(administrator.get("port", port)),
        "PGUSER": str(administrator["user"]),
    }
    names = {
        "db.example.org:5432": f"127.0.0.1:{port}",
        "gw.example.org": "localhost",
        "8443": str(gateway),
        "0.0.0.0": "127.0.0.1",  # noqa: S104  # it is not bound here
    }
    try:
        with readers_shell(tmp_path, environment) as shell:
            commands = shell.follow(TUTORIALS.parent / "production.md", names)
            shell.run("kill %?gateway; wait")
        assert commands == 51
    finally:
        server.down(immediate=True)
        shutil.rmtree(home)
