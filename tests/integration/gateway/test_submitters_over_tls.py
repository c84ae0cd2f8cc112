"""A submitter outside the firewall: a fresh process with an address, a token and a certificate."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from taskq import Client
from tests.fixtures.gateways import Realm, StartGateway
from tests.helpers.command_line import PROGRAM, CommandLine
from tests.integration.gateway.site import Site

pytestmark = pytest.mark.thorough

LATER_S = 100.0
#: What a chemist types; agents run elsewhere, as anyone who looks after them likes.
SCRIPT = """
import sys
import taskq

queue = taskq.connect()
path = sys.argv[1]


def dock(ligand, exhaustiveness):
    return {"score": -exhaustiveness * len(ligand["smiles"])}


ligands = [{"smiles": "C" * n} for n in range(1, 41)]
run = queue.map(dock, ligands, name=f"{path}/1lf3", params={"exhaustiveness": 8})
run.result(timeout=60)
best = sorted(run.outcomes(), key=lambda one: one.value["score"])[:3]
refined = queue.map(dock, [one.argument for one in best], name=f"{path}/1lf3/refine",
                    params={"exhaustiveness": 32})
print(sum(value["score"] for value in refined.results(timeout=60)))
"""


def test_functions_run_from_outside_with_nothing_but_a_gateway(
    queue: Client, start_gateway: StartGateway, tmp_path: Path
) -> None:
    """Two stages by Python, agents over the gateway, and the same results by command."""
    site = Site(tmp_path)
    gateway = start_gateway(*site.certificate)
    realm = Realm(queue, gateway)
    token = tmp_path / "manager.token"
    token.write_text(realm.token("pickler") + "\n")
    token.chmod(0o600)
    node = site.node(realm.site)
    outside = {
        **node.environment,
        "HOME": str(tmp_path / "home"),
        "TASKQ_URL": gateway.url,
        "TASKQ_TOKEN_FILE": str(token),
        "TASKQ_CA": str(site.ca),
    }

    def typed(*words: object) -> str:
        done = subprocess.run(
            [*map(str, words)],
            env=outside,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=2 * LATER_S,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    with node.at_work(gateway.url, ca=site.ca, slots=2, cache=tmp_path / "cache"):
        said = typed(sys.executable, "-c", SCRIPT, realm.path)
    assert said.strip() == str(-32 * (38 + 39 + 40))
    status = json.loads(typed(PROGRAM, "status", f"{realm.path}/1lf3", "-o", "json"))
    assert (status["done"], status["waiting"], status["working"]) == (43, 0, 0)
    results = typed(PROGRAM, "results", f"{realm.path}/1lf3/refine", "-o", "jsonl").splitlines()
    assert len(results) == 3
    refused = subprocess.run(
        [str(PROGRAM), "token", "list"],
        env=outside,
        capture_output=True,
        text=True,
        check=False,
    )
    assert refused.returncode == 2
    assert "`taskq token list` does not work over a gateway" in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_untrusted_certificate_is_refused_before_the_token_is_sent(
    queue: Client, start_gateway: StartGateway, tmp_path: Path
) -> None:
    """The error says in a line what to do."""
    site = Site(tmp_path)
    gateway = start_gateway(*site.certificate)
    token = tmp_path / "manager.token"
    token.write_text(Realm(queue, gateway).manager)
    environment = {**site.node("tqe_x").environment, "TASKQ_TOKEN_FILE": str(token)}
    done = subprocess.run(
        [str(PROGRAM), "status", "--url", gateway.url],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 69
    assert "TASKQ_CA" in done.stderr
    assert "tqm_" not in done.stderr


def test_similar_campaign_is_found_by_a_token_for_a_part_of_the_queue(
    realm: Realm, tmp_path: Path
) -> None:
    """The levels above are not looked at; nothing is proposed outside, or for another name."""
    realm.queue.create_campaign(f"{realm.path}/mapk14")
    file = tmp_path / "token"
    file.write_text(realm.token("submitter"))
    file.chmod(0o600)
    address = {"TASKQ_URL": realm.gateway.url, "TASKQ_TOKEN_FILE": str(file)}
    taskq = CommandLine("", address=address)
    for typed, advice in (("mapk15", f"did you mean {realm.path}/mapk14?"), ("x", "`taskq tree`")):
        code, error = taskq.refused("status", f"{realm.path}/{typed}")
        assert (code, f"no campaign {realm.path}/{typed}; {advice}" in error) == (66, True), error
    code, error = taskq.refused("status", "/")
    assert (code, f"is not for /, but for {realm.path}" in error) == (77, True), error
