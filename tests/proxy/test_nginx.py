"""Agents through nginx from Debian, with its limit on bodies, and to its TLS port without TLS."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from taskq import CampaignSpec, Client, Handler
from tests.fixtures.gateways import GatewayProcess, Realm, StartGateway
from tests.helpers.waiting import wait_until
from tests.helpers.worker_node import WorkerNode

LATER_S = 90.0
_SCRIPT = r"""exec > "$TASKQ_RESULT"
printf '\173"x":"'; head -c "$1" /dev/zero | tr '\0' a; printf '"\175'"""
_CONFIGURATION = """\
daemon off; pid {folder}/pid; error_log {folder}/error.log;
events {{ }}
http {{
    access_log off;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
    server {{
        listen 127.0.0.1:{plain};
        listen 127.0.0.1:{tls} ssl;
        ssl_certificate {folder}/nginx.pem; ssl_certificate_key {folder}/nginx.pem;
        {more}
        location / {{
            proxy_pass http://127.0.0.1:{gateway};
            proxy_http_version 1.1;
            proxy_read_timeout 90s;
        }}
    }}
}}
"""


class Nginx:
    """nginx before a gateway, with a plain port and one with TLS."""

    def __init__(self, folder: Path, gateway: int) -> None:
        program = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
        assert program, "these tests need nginx: `apt-get install nginx-light` as root"
        self._file, self._gateway = folder / "nginx.conf", gateway
        self.plain, self.tls = _free_port(), _free_port()
        pem = folder / "nginx.pem"
        trustme.CA().issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(pem))
        self.configure("")
        self.process = subprocess.Popen([program, "-c", self._file, "-e", folder / "error.log"])
        wait_until(lambda: self.process.poll() is not None or _listens(self.plain))
        assert self.process.poll() is None, (folder / "error.log").read_text()

    def configure(self, more: str) -> None:
        """Write the configuration, with further lines."""
        text = _CONFIGURATION.format(
            folder=self._file.parent,
            plain=self.plain,
            tls=self.tls,
            gateway=self._gateway,
            more=more,
        )
        self._file.write_text(text)


@pytest.fixture
def gateway(start_gateway: StartGateway) -> GatewayProcess:
    return start_gateway("--lease", 12, "--proxy", "127.0.0.1")


@pytest.fixture
def nginx(gateway: GatewayProcess) -> Iterator[Nginx]:
    # Not tmp_path: root's nginx works as another user, and each start of pytest closes its folders.
    with tempfile.TemporaryDirectory(prefix="taskq-nginx-") as folder:
        Path(folder).chmod(0o755)
        nginx = Nginx(Path(folder), gateway.port)
        with nginx.process:
            try:
                yield nginx
            finally:
                nginx.process.terminate()


@pytest.fixture
def realm(queue: Client, gateway: GatewayProcess) -> Realm:
    return Realm(queue, gateway)


@pytest.fixture
def node(realm: Realm, tmp_path: Path) -> WorkerNode:
    folder = tmp_path / "node"
    folder.mkdir()
    node = WorkerNode(folder)
    node.token.write_text(realm.site)
    return node


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_default_limit_of_nginx_destroys_no_result(
    queue: Client, realm: Realm, nginx: Nginx, node: WorkerNode
) -> None:
    """Of 3 MB, computed once; `explain` names the setting that lets it through."""
    handler = Handler("command", argv=("sh", "-c", _SCRIPT, "sh", "{n}"))
    campaign = queue.create_campaign(CampaignSpec(f"{realm.path}/c", handler=handler))
    campaign.seed({"n": n} for n in (3_000_000, 1_000))

    def warned() -> str:
        return " ".join(reason.text for reason in campaign.explain().reasons)

    url = f"http://127.0.0.1:{nginx.plain}"
    with node.at_work(url, slots=2, spool="spool", until_empty=True) as agent:
        wait_until(lambda: "client_max_body_size" in warned(), timeout_s=LATER_S)
        assert "413 from nginx" in warned()
        assert (campaign.status().done, campaign.status().failures) == (1, 0)
        nginx.configure("client_max_body_size 64m;")
        nginx.process.send_signal(signal.SIGHUP)
        _, log = agent.communicate(timeout=LATER_S)
    assert agent.returncode == 0, log
    assert [(task.status, task.attempt) for task in campaign.tasks()] == [("done", 1)] * 2


def test_plain_http_at_the_tls_port_of_nginx_is_recognised(nginx: Nginx, node: WorkerNode) -> None:
    """With a page of status 400, since nginx sends no error of TLS."""
    ran = node.run(f"http://127.0.0.1:{nginx.tls}")
    assert f"is it https://127.0.0.1:{nginx.tls}?" in ran.err
