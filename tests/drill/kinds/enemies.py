"""Problems that look like something else: an enemy has planted them."""

from __future__ import annotations

import resource
import socket
from functools import partial

from taskq import Handler
from tests.drill.scene import Scene, Signs, kind
from tests.helpers.relay import Relay
from tests.helpers.waiting import wait_until

_RESULT_BYTES = 2_000_000
_LONG_BYTES = 8_192


@kind("fast-and-empty")
def fast_and_empty(scene: Scene) -> Signs:
    """Let the program of a host do nothing, in no time."""
    path, host = scene.campaign(240), scene.host()
    host.trouble("sleep 0.5; exit 0", path)
    return Signs(
        (rf"\b{host.name}\b", path, "one value|constant|empty"),
        f"taskq retry {path} .*{host.name}",
        host.mend,
    )


@kind("crash-loop")
def crash_loop(scene: Scene) -> Signs:
    """Let the agents of a host die with each task, and start anew."""
    host = scene.host()
    host.kill()
    host.trouble('sleep 1; kill -9 "$(cat "$DRILL_HOME/pid")"')
    host.start(again=True)
    return Signs((rf"\b{host.name}\b", "lost"), f"taskq host ban .*{host.name}", within_s=90.0)


@kind("input-replaced")
def input_replaced(scene: Scene) -> Signs:
    """Replace an input by a bad one while the campaign is at work."""
    path = scene.campaign(400, max_failure_share=None)
    add = f"taskq input add {path} {scene.stage.word()}.pdbqt --name receptor"
    file = scene.stage.folder / add.split()[4]
    file.write_text("ATOM\n")
    scene.stage.type(add)
    wait_until(lambda: scene.left(path) < 380, timeout_s=120.0)
    scene.everywhere("echo 'receptor has no atoms' >&2; exit 3", path)
    file.write_text("\n")
    scene.stage.type(add)
    return Signs(
        (path, "campaign's fault", "input"),
        f"taskq (input|campaign|retry) .*{path}",
        partial(scene.mend, path),
        within_s=60.0,
    )


@kind("shared-quota")
def shared_quota(scene: Scene) -> Signs:
    """Let a campaign take all that its owner may run, while another of the owner waits."""
    owner = scene.stage.word()
    hog, waits = scene.campaign(20, paused=True), scene.campaign(paused=True)
    scene.everywhere("seconds=600", hog)
    for path in (hog, waits):
        scene.stage.type(f"taskq owner give {path} {owner}")
    scene.stage.type(f"taskq owner quota {owner} --running 2")
    scene.stage.client.campaign(hog).resume()
    wait_until(
        lambda: scene.stage.client.campaign(hog).status().working == 2,
        timeout_s=120.0,
    )
    scene.stage.client.campaign(waits).resume()
    return Signs((waits, hog, owner, "quota allows 2"), f"taskq owner quota .*{owner}")


class _Cutting(Relay):
    """Way to a gateway over which no long answer comes."""

    def __init__(self, url: str) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        super().__init__(listener)
        self.url = f"https://127.0.0.1:{listener.getsockname()[1]}"
        self._port = int(url.rpartition(":")[2])

    def connect(self) -> socket.socket:
        """Return a connection to the gateway."""
        return socket.create_connection(("127.0.0.1", self._port))

    def passes(self, answer: bytes) -> bool:
        """Return whether an answer is short."""
        return len(answer) <= _LONG_BYTES


@kind("cut-answers")
def cut_answers(scene: Scene) -> Signs:
    """Put a site behind a proxy that cuts long answers: agents are heard, and get no tasks."""
    site = scene.site()
    relay = scene.stage.stack.enter_context(_Cutting(scene.stage.urls[0]))
    scene.campaign(60, bytes_of_a_task=60_000)
    site.restart(gateways=[relay.url])
    return Signs(
        (rf"\b({site.name}|{site.hosts[0].name})\b", "answer|network|gateway|proxy"),
        "taskq",
        within_s=90.0,
    )


@kind("full-store", alone=True)
def full_store(scene: Scene) -> Signs:
    """Fill the disk on which a gateway stores large results."""
    pose = f"head -c {_RESULT_BYTES} /dev/urandom | base64 -w 0"
    quoted = """sed 's/.*/{"pose": "&"}/' > "$TASKQ_RESULT"\n"""
    scene.install(f"#!/bin/sh\n{pose} | {quoted}", "pose")
    scene.campaign(handler=Handler("command", argv=("pose", "{n}")))
    for process in scene.stage.gateways:
        _, most = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (64, most))
    return Signs(("gateway|store", "disk|space|full|cannot", "result"), "taskq", within_s=90.0)
