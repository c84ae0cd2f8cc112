"""Problems of tasks and programs: what fails, where, and what never ends."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from taskq import Handler
from tests.drill.scene import Scene, Signs, kind

#: Docks all ligands of a file by one start.
_DOCK_MANY: Final = """\
#!/bin/sh
while read -r n id; do
    if [ -f "$DRILL_HOME/$1" ]; then . "$DRILL_HOME/$1"; fi
    sleep 0.1
    result="{\\"energy\\": -$((n % 9)).$((n * 7919 % 97))}"
    echo "{\\"id\\": $id, \\"result\\": $result}" >> "$TASKQ_OUTCOMES"
done < "$2"
"""


@kind("black-hole")
def black_hole(scene: Scene) -> Signs:
    host = scene.host()
    host.trouble("echo 'libcuda.so.1: cannot open shared object file' >&2; exit 1")
    return Signs(
        (rf"\b{host.name}\b", "fail", "libcuda"),
        f"taskq host ban .*libcuda.* {host.name}",
    )


@kind("wrong-version")
def wrong_version(scene: Scene) -> Signs:
    path, host = scene.campaign(), scene.host()
    host.trouble("echo 'dock 1.9 found, 2.1 needed' >&2; exit 3", path)
    return Signs((rf"\b{host.name}\b", "2.1 needed"), f"taskq host ban .* {host.name}")


@kind("library-of-one-program")
def library_of_one_program(scene: Scene) -> Signs:
    """Nothing is wrong with the host for other campaigns."""
    path, host = scene.campaign(), scene.host()
    scene.campaign()
    host.trouble("echo 'libc.so.6: version GLIBC_2.38 not found' >&2; exit 1", path)
    return Signs(
        (rf"\b{host.name}\b", "GLIBC", f"only {path} fails there"),
        f"taskq host ban .*--campaign {path} .*{host.name}",
    )


@kind("missing-program")
def missing_program(scene: Scene) -> Signs:
    host = scene.host()
    for machine in scene.stage.hosts.values():
        if machine is not host:
            machine.install('#!/bin/sh\nexec dock "$@"\n', "score")
    path = scene.campaign(handler=Handler("command", argv=("score", "{params.name}", "{n}")))
    return Signs((path, rf"\b{host.name}\b", "score"), "taskq")


@kind("not-executable")
def not_executable(scene: Scene) -> Signs:
    host = scene.host()
    (host.home / "bin" / "dock").chmod(0o644)
    return Signs((rf"\b{host.name}\b", "not-executable"), f"taskq host show {host.name}")


@kind("flaky")
def flaky(scene: Scene) -> Signs:
    path = scene.campaign(max_failure_share=None)
    draw = "$(od -An -N1 -tu1 /dev/urandom)"
    scene.everywhere(f"[ {draw} -lt 110 ] && {{ echo 'port in use' >&2; exit 12; }}", path)
    return Signs(
        (path, "chance"),
        f"taskq campaign change {path} --max-attempts",
        healed=lambda: scene.left(path) < 30,
        within_s=90.0,
    )


@kind("bad-input")
def bad_input(scene: Scene) -> Signs:
    path = scene.campaign()
    scene.everywhere("[ $((n % 6)) = 1 ] && { echo 'no atoms in the ligand' >&2; exit 65; }", path)
    return Signs(
        (path, "tasks' fault"),
        f"taskq retry .*{path}",
        *scene.mending(path),
    )


@kind("bad-parameter")
def bad_parameter(scene: Scene) -> Signs:
    path = scene.campaign(max_failure_share=None)
    scene.everywhere("echo 'exhaustiveness must be a number' >&2; exit 2", path)
    return Signs(
        (path, "campaign's fault"),
        f"taskq retry .*{path}",
        *scene.mending(path),
    )


@kind("failure-guard")
def failure_guard(scene: Scene) -> Signs:
    path = scene.campaign()
    scene.everywhere("echo 'licence expired' >&2; exit 4", path)
    return Signs(
        (path, "paused itself"),
        f"taskq campaign resume {path}",
        lambda: scene.mend(path),
        lambda: scene.left(path) < 100,
    )


@kind("time-limit")
def time_limit(scene: Scene) -> Signs:
    path = scene.campaign(60, time_limit_s=2.0)
    scene.everywhere("[ $((n % 3)) = 0 ] && seconds=3", path)
    return Signs(
        (path, "time-limit", "campaign's fault"), f"taskq campaign change {path} --time-limit 4s"
    )


@kind("slow-host")
def slow_host(scene: Scene) -> Signs:
    path, host = scene.campaign(), scene.host()
    host.trouble("seconds=4", path)
    return Signs((rf"\b{host.name}\b", "as long as elsewhere"), "taskq host")


@kind("memory-limit")
def memory_limit(scene: Scene) -> Signs:
    path = scene.campaign(60, memory=(32 << 20,))
    take = "python3 -c 'import time; x = b\"1\" * (96 << 20); time.sleep(5)'"
    scene.everywhere(f"[ $((n % 3)) = 0 ] && exec {take}", path)
    return Signs(
        (path, "out-of-memory", "campaign's fault"),
        f"taskq campaign change {path} --memory 64M",
    )


@kind("output-limit")
def output_limit(scene: Scene) -> Signs:
    path = scene.campaign(60, output_bytes=20_000)
    leave = "head -c 60000 /dev/zero > $TASKQ_OUT/pose"
    scene.everywhere(f"[ $((n % 3)) = 0 ] && {leave}", path)
    return Signs(
        (path, "output-too-large", "campaign's fault"),
        f"taskq campaign change {path} --output-bytes 40000",
    )


@kind("missing-field")
def missing_field(scene: Scene) -> Signs:
    argv = ("dock", "{params.name}", "{n}", "{smiles}")
    path = scene.campaign(60, handler=Handler("command", argv=argv))
    return Signs((path, "smiles", "campaign's fault"), f"taskq retry .*{path}")


@kind("module-with-syntax-error")
def module_with_syntax_error(scene: Scene) -> Signs:
    module = scene.stage.word()
    scene.install("def run(payload, params)\n    return {}\n", f"{module}.py")
    path = scene.campaign(handler=Handler("python", target=f"{module}:run"))
    return Signs(
        (path, "SyntaxError"),
        f"taskq campaign (pause|resume|change) {path}",
        lambda: scene.install("def run(payload, params):\n    return {}\n", f"{module}.py"),
        lambda: scene.left(path) == 0,
    )


@kind("bad-interpreter")
def bad_interpreter(scene: Scene) -> Signs:
    program = scene.stage.word()
    scene.install("#!/usr/bin/pyhton3\n", program)
    path = scene.campaign(handler=Handler("command", argv=(program, "{n}")))
    return Signs(
        (path, "pyhton3"),
        f"taskq campaign (pause|resume|change) {path}",
        lambda: scene.install("#!/bin/sh\n", program),
        lambda: scene.left(path) == 0,
    )


@kind("hanging-tasks")
def hanging_tasks(scene: Scene) -> Signs:
    path = scene.campaign(90)
    scene.everywhere("case $n in 11|47) seconds=900 ;; esac", path)
    return Signs(
        (path, r"\bn=(11|47)\b", "longer than others"),
        f"taskq cancel {path} --key=n=(11|47)",
        healed=lambda: scene.stage.client.campaign(path).status().cancelled > 0,
        within_s=150.0,
    )


@kind("guilty-ligand")
def guilty_ligand(scene: Scene) -> Signs:
    scene.install(_DOCK_MANY, "dock-many")
    argv = ("dock-many", "{params.name}", "{list}")
    handler = Handler("command", argv=argv, batch=30, line="{n} {task.n}")
    path = scene.campaign(handler=handler)
    scene.everywhere("[ $n = 41 ] && kill -SEGV $$", path)
    return Signs(
        (path, r"\bn=41\b", "SIGSEGV"),
        f"taskq retry .*{path}",
        *scene.mending(path),
    )


@kind("full-disk")
def full_disk(scene: Scene) -> Signs:
    path, host = scene.campaign(), scene.host()
    host.trouble("seq 100000 > /dev/full || exit 1", path)
    return Signs((rf"\b{host.name}\b", "No space left"), f"taskq host ban .* {host.name}")


@kind("segfault-on-host")
def segfault_on_host(scene: Scene) -> Signs:
    path, host = scene.campaign(), scene.host()
    host.trouble("kill -SEGV $$", path)
    return Signs((rf"\b{host.name}\b", "SIGSEGV"), f"taskq host ban .* {host.name}")


@kind("constant-results")
def constant_results(scene: Scene) -> Signs:
    path, host = scene.campaign(), scene.host()
    host.trouble("energy=0.0", path)
    return Signs((rf"\b{host.name}\b", path, "constant|same"), "taskq retry --where|taskq retry")


@kind("odd-results")
def odd_results(scene: Scene) -> Signs:
    path, host = scene.campaign(), scene.host()
    host.trouble("energy=$((n % 50 + 900)).5", path)
    return Signs((rf"\b{host.name}\b", path, "result"), "taskq retry")


@kind("broken-results")
def broken_results(scene: Scene) -> Signs:
    path, host = scene.campaign(best="lowest result.energy"), scene.host()
    host.trouble("energy=8.5.", path)
    return Signs((rf"\b{host.name}\b", path, "cannot be ranked by energy"), "taskq retry")


def _with_input(scene: Scene) -> tuple[str, Path]:
    """Make a campaign whose tasks need a file, and return the file in the store."""
    path = scene.campaign(paused=True)
    before = set(scene.stage.blobs.rglob("*"))
    file = scene.stage.folder / f"{scene.stage.word()}.pdbqt"
    file.write_text(f"REMARK {file.name}\n" * 100)
    scene.stage.type(f"taskq input add {path} {file} --name receptor")
    (stored,) = [path for path in set(scene.stage.blobs.rglob("*")) - before if path.is_file()]
    return path, stored


@kind("input-missing")
def input_missing(scene: Scene) -> Signs:
    path, stored = _with_input(scene)
    kept = stored.read_bytes()
    stored.unlink()
    scene.stage.client.campaign(path).resume()
    return Signs(
        (path, "receptor"),
        f"taskq campaign resume {path}",
        lambda: stored.write_bytes(kept),
        lambda: scene.left(path) == 0,
    )


@kind("input-corrupt")
def input_corrupt(scene: Scene) -> Signs:
    path, stored = _with_input(scene)
    kept = stored.read_bytes()
    stored.write_bytes(kept[:-9] + b"corrupted")
    scene.stage.client.campaign(path).resume()
    return Signs(
        (path, "receptor"),
        f"taskq campaign resume {path}",
        lambda: stored.write_bytes(kept),
        lambda: scene.left(path) == 0,
    )


@kind("failing-site")
def failing_site(scene: Scene) -> Signs:
    path, site = scene.campaign(), scene.site()
    for host in site.hosts:
        host.trouble("echo '/soft/dock: stale file handle' >&2; exit 116", path)
    return Signs((rf"\b{site.name}\b", "fail"), f"taskq site ban .*stale.* {site.name}")


@kind("slow-site")
def slow_site(scene: Scene) -> Signs:
    path, site = scene.campaign(), scene.site()
    for host in site.hosts:
        host.trouble("seconds=4", path)
    return Signs((rf"\b{site.name}\b", "as long as elsewhere"), "taskq (host|site)")


@kind("poison-task", alone=True)
def poison_task(scene: Scene) -> Signs:
    path = scene.campaign(20, innocent=False)
    scene.guilty |= scene.stage.hosts.keys()
    scene.everywhere('[ "$n" = 7 ] && kill -9 "$(cat "$DRILL_HOME/pid")"', path)
    return Signs((path, "n=7", "lost"), f"taskq .*{path}", within_s=90.0)
