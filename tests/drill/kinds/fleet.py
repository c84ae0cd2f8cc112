"""Problems of hosts, sites, tokens and gateways: capacity that is lost."""

from __future__ import annotations

import os
import resource
import signal
import sys

from tests.chaos.clocks import Clock, shim
from tests.drill.scene import Scene, Signs, kind
from tests.drill.stage import Stage


@kind("banned-host")
def banned_host(scene: Scene) -> Signs:
    host = scene.host()
    scene.stage.type(f"taskq host ban {host.name} --why 'new kernel'")
    return Signs((rf"\b{host.name}\b", "banned", "new kernel"), f"taskq host unban {host.name}")


@kind("lease-lost")
def lease_lost(scene: Scene) -> Signs:
    host = scene.host()
    host.kill()
    return Signs((rf"\b{host.name}\b", "lost"), "taskq")


@kind("no-keeper", prepare=lambda stage: stage.gateway("--no-keeper"))
def no_keeper(scene: Scene) -> Signs:
    path = scene.campaign(40)
    once = '"$DRILL_HOME/../once-$n"'
    scene.everywhere(f"[ -f {once} ] || {{ : > {once}; exit 3; }}", path)
    return Signs(("No keeper",), "taskq keeper", healed=lambda: scene.left(path) == 0)


@kind("banned-site")
def banned_site(scene: Scene) -> Signs:
    site = scene.site()
    scene.stage.type(f"taskq site ban {site.name} --why 'file server moves'")
    return Signs(
        (rf"\b{site.name}\b", "banned", "file server moves"), f"taskq site unban {site.name}"
    )


@kind("drained")
def drained(scene: Scene) -> Signs:
    host = scene.host()
    host.trouble("seconds=30")
    scene.stage.type(f"taskq agent drain --host {host.name}")
    return Signs((rf"\b{host.name}\b", "drain|leav|left"), "taskq")


@kind("agent-never-begins")
def agent_never_begins(scene: Scene) -> Signs:
    """Its batch system starts it again and again; only its log would say why."""
    host = scene.host()
    host.kill()
    host.start("--scratch", "/proc", again=True)
    return Signs((rf"\b{host.name}\b", "unfit", "scratch"), "taskq host list")


@kind("frozen-agent")
def frozen_agent(scene: Scene) -> Signs:
    host = scene.host()
    host.freeze()
    return Signs((rf"\b{host.name}\b", "silent|lost"), "taskq")


@kind("token-revoked")
def token_revoked(scene: Scene) -> Signs:
    site = scene.site()
    scene.stage.type(f"taskq token revoke {site.name}")
    site.restart()
    return Signs((rf"\b{site.name}\b", "revoked"), f"taskq token create {site.name}")


@kind("token-used-up")
def token_used_up(scene: Scene) -> Signs:
    site, name = scene.site(), scene.stage.word()
    scene.stage.token(site.name, name, max_uses=1)
    site.restart(token=name)
    scene.guilty.add(name)
    return Signs((rf"\b{name}\b", "used up"), f"taskq token create {name}")


@kind("token-expired")
def token_expired(scene: Scene) -> Signs:
    site, name = scene.site(), scene.stage.word()
    scene.stage.token(site.name, name, days=1e-6)
    site.restart(token=name)
    scene.guilty.add(name)
    return Signs((rf"\b{name}\b", "expired"), f"taskq token create {name}")


@kind("token-of-other-network")
def token_of_other_network(scene: Scene) -> Signs:
    site, name = scene.site(), scene.stage.word()
    scene.stage.token(site.name, name, networks=["192.0.2.0/24"])
    site.restart(token=name)
    scene.guilty.add(name)
    return Signs((rf"\b{name}\b", "refused", "not for agents at 127.0.0.1"), "taskq token list")


@kind("never-came")
def never_came(scene: Scene) -> Signs:
    name = scene.stage.word()
    scene.stage.token(name)
    return Signs((rf"\b{name}\b", "never"), "taskq")


@kind("dead-balancer")
def dead_balancer(scene: Scene) -> Signs:
    site = scene.site()
    site.restart(gateways=("https://127.0.0.1:1",))
    return Signs((rf"\b({site.name}|{site.hosts[0].name})\b", "lost|silent"), "taskq")


@kind("narrow-agents")
def narrow_agents(scene: Scene) -> Signs:
    path, site = scene.campaign(1), scene.site()
    for host in site.hosts:
        host.kill()
        host.start("--campaign", path)
    return Signs((rf"\b{site.hosts[0].name}\b", path, "ended"), "taskq agent run --campaign")


@kind("frozen-gateway", prepare=lambda stage: (stage.gateway(), stage.gateway()))
def frozen_gateway(scene: Scene) -> Signs:
    stage = scene.stage
    os.killpg(stage.gateways[0].pid, signal.SIGSTOP)
    # Agents that talk to it may lose their leases before they turn to the other one.
    scene.guilty |= {*stage.hosts, *stage.sites}
    port = stage.urls[0].rpartition(":")[2]
    return Signs((rf":{port}\b", "no sign"), "taskq gateway", within_s=60.0)


@kind("full-spool")
def full_spool(scene: Scene) -> Signs:
    host = scene.host()
    assert host.process is not None
    _, most = resource.prlimit(host.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(host.process.pid, resource.RLIMIT_FSIZE, (64, most))
    return Signs((rf"\b{host.name}\b", "spool|memory only"), "taskq")


@kind("wrong-clock")
def wrong_clock(scene: Scene) -> Signs:
    host = scene.host()
    made = shim(scene.stage.folder)
    assert made is not None, "a C compiler is needed: apt-get install gcc"
    clock = Clock(made, host.home / "clock")
    clock.set(-3_600 * 24 * 400)
    host.restart(**clock.environment)
    return Signs((rf"\b{host.name}\b", "clock"), "taskq")


_OLD = "import taskq.model.version as v; v.VERSION = '0.0.1'; "
_OLD += "from taskq_cli.main import main; main()"


def _one_old_gateway(stage: Stage) -> None:
    stage.gateway()
    stage.gateway(program=(sys.executable, "-c", _OLD))


@kind("old-gateway", prepare=_one_old_gateway)
def old_gateway(_: Scene) -> Signs:
    return Signs(("gateway", r"0\.0\.1"), "taskq")
