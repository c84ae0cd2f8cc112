"""Problems of campaigns: settings and orders that keep tasks from running."""

from __future__ import annotations

from taskq import RetryPolicy
from tests.drill.scene import Scene, Signs, kind


@kind("paused")
def paused(scene: Scene) -> Signs:
    path = scene.campaign()
    scene.stage.client.campaign(path).pause()
    left = scene.left(path)
    return Signs(
        (path, "paused by an operator"),
        f"taskq campaign resume {path}",
        healed=lambda: scene.left(path) < left,
    )


@kind("no-tag")
def no_tag(scene: Scene) -> Signs:
    path = scene.campaign(75, requires=("gpu",))
    return Signs(
        (path, "75 tasks", "offers gpu"),
        f"taskq agent run --campaign {path} --offer gpu",
        healed=lambda: scene.left(path) < 75,
    )


@kind("cap-of-campaign")
def cap_of_campaign(scene: Scene) -> Signs:
    path = scene.campaign(max_running=1)
    return Signs((path, "max_running allows 1"), f"taskq campaign change {path} --max-running none")


@kind("cap-of-site")
def cap_of_site(scene: Scene) -> Signs:
    scene.everywhere("seconds=8", path := scene.campaign(60, max_running_per_site=1))
    return Signs(
        (path, "max_running_per_site allows 1"),
        f"taskq campaign change {path} --max-running-per-site none",
    )


@kind("no-handler")
def no_handler(scene: Scene) -> Signs:
    path = scene.campaign(handler=None)
    return Signs((path, "no handler"), f"taskq campaign change {path}")


@kind("quota-running")
def quota_running(scene: Scene) -> Signs:
    owner = scene.stage.word()
    path = scene.campaign(paused=True)
    scene.stage.type(f"taskq owner give {path} {owner}; taskq owner quota {owner} --running 1")
    scene.stage.client.campaign(path).resume()
    return Signs(
        (path, owner, "quota allows 1"),
        f"taskq owner quota .*{owner}",
        healed=lambda: scene.left(path) == 0,
    )


@kind("named-limit")
def named_limit(scene: Scene) -> Signs:
    name = scene.stage.word()
    scene.stage.client.limits.set(name, 1)
    path = scene.campaign(named_limits=(name,))
    return Signs((path, f"the limit {name}, which allows 1", f"held by {path}"), "taskq limit list")


@kind("long-backoff")
def long_backoff(scene: Scene) -> Signs:
    path = scene.campaign(40, retry=RetryPolicy(backoff_s=2_400.0))
    scene.everywhere("[ $((n % 4)) = 0 ] && exit 3", path)
    return Signs(
        (path, "delayed", "backoff", "usual"),
        f"taskq campaign change {path} --backoff",
        *scene.mending(path),
    )


@kind("quota-bytes")
def quota_bytes(scene: Scene) -> Signs:
    owner = scene.stage.word()
    path = scene.campaign(paused=True)
    (scene.stage.folder / f"{owner}.pdb").write_text("ATOM\n" * 10_000)
    scene.stage.type(
        f"taskq input add {path} {owner}.pdb && taskq owner give {path} {owner} && "
        f"taskq owner quota {owner} --bytes 1k"
    )
    scene.stage.client.campaign(path).resume()
    return Signs((path, owner, "stored", "quota allows"), f"taskq owner quota .*{owner}")


@kind("starved-by-weight")
def starved_by_weight(scene: Scene) -> Signs:
    path = scene.campaign(400, weight=0.01)
    return Signs((path, "weight"), f"taskq campaign change {path} --weight")


@kind("too-many-cores")
def too_many_cores(scene: Scene) -> Signs:
    path = scene.campaign(30, cores=512)
    return Signs((path, "cores>=512"), f"taskq campaign change {path}")
