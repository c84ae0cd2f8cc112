"""Campaigns as values and as TOML files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskq.ingest.campaign_file import CampaignFile, SeedPlan, read_campaign_file
from taskq.ingest.sources import SourceOptions
from taskq.model.campaign_spec import CampaignSpec
from taskq.model.errors import InvalidCampaign, InvalidPath, NotFound, UsageError
from taskq.model.handler import Handler
from taskq.model.retry_policy import RetryPolicy
from taskq.model.seed import Seed

WHOLE = """
path = "/wisdom/malaria/1lf3"
description = "Plasmepsin II"
weight = 2
requires = ["gpu", "mem>=16"]
late_results = "salvage"

[handler]
kind = "python"
target = "dock:dock"
prepare = "dock.maps:Receptor.load"

[retry]
max_attempts = 4
max_losses = 6
backoff_s = 1
backoff_max_s = 60.5
never_retry = ["bad-ligand"]
max_lost_hosts = 2
max_out_of_time = 4

[limits]
time_limit_s = 1800
max_running = 500
max_failure_share = 0.5

[params]
receptor = "1lf3.pdbqt"
box = { center = [1.5, 2, -3], size = 20 }
flexible = false

[seed]
file = "ligands.csv"
key = "id"
types = "text"
sweep = ["seed=101:104"]
"""

HANDLER = '[handler]\nkind = "command"\nargv = ["true"]\n'
MINIMAL = f'path = "/a"\n{HANDLER}'


def read(tmp_path: Path, text: str | bytes) -> CampaignFile:
    path = tmp_path / "campaign.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_campaign_file(path)


def test_whole_file_is_read(tmp_path: Path) -> None:
    """Every key of the format arrives where it belongs; files are relative to the campaign's."""
    assert read(tmp_path, WHOLE) == CampaignFile(
        spec=CampaignSpec(
            path="/wisdom/malaria/1lf3",
            description="Plasmepsin II",
            handler=Handler("python", target="dock:dock", prepare="dock.maps:Receptor.load"),
            retry=RetryPolicy(
                max_attempts=4,
                max_losses=6,
                backoff_s=1,
                backoff_max_s=60.5,
                never_retry=("bad-ligand",),
                max_lost_hosts=2,
                max_out_of_time=4,
            ),
            time_limit_s=1800,
            max_running=500,
            max_failure_share=0.5,
            late_results="salvage",
            weight=2,
            requires=("gpu", "mem>=16"),
            params={
                "receptor": "1lf3.pdbqt",
                "box": {"center": [1.5, 2, -3], "size": 20},
                "flexible": False,
            },
        ),
        seed=SeedPlan(
            file=tmp_path / "ligands.csv",
            format=None,
            options=SourceOptions(key="id", types="text"),
            sweep=("seed=101:104",),
        ),
    )


def test_omitted_settings_of_a_campaign_file_have_defaults(tmp_path: Path) -> None:
    """Path and handler are enough; a byte order mark does not matter."""
    campaign = read(tmp_path, b"\xef\xbb\xbf" + MINIMAL.encode())
    assert campaign == CampaignFile(
        CampaignSpec("/a", handler=Handler("command", argv=("true",))), None
    )
    assert campaign.spec.retry == RetryPolicy(
        max_attempts=3, max_losses=5, backoff_s=10.0, backoff_max_s=3600.0
    )
    assert (campaign.spec.time_limit_s, campaign.spec.max_running) == (None, None)
    assert (campaign.spec.weight, campaign.spec.requires) == (1.0, ())


def test_seed_plan_opens_file_and_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tasks of a file come the same from any working directory."""
    (tmp_path / "ligands.csv").write_text("id,smiles\nL1,CCO\n")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "campaign.toml").write_text(WHOLE)
    seed = read_campaign_file("campaign.toml").seed
    assert seed is not None
    monkeypatch.chdir("/")
    with seed.open() as source:
        assert next(iter(source)) == Seed({"id": "L1", "smiles": "CCO", "seed": 101}, "L1;seed=101")


def test_seed_plan_may_be_a_sweep_or_a_file_alone(tmp_path: Path) -> None:
    """Both kinds of campaign are common."""
    swept = read(tmp_path, MINIMAL + '[seed]\nsweep = ["seed=1:3"]\n').seed
    assert swept is not None
    assert swept.open().total == 3
    (tmp_path / "a.smi").write_text("CCO\n")
    filed = read(tmp_path, MINIMAL + '[seed]\nfile = "a.smi"\n').seed
    assert filed is not None
    with filed.open() as source:
        assert len(list(source)) == 1


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (HANDLER, "path is missing"),
        ('path = "/a"\n', r"table \[handler\] is missing"),
        (f"path = 3\n{HANDLER}", "path must be text, not 3"),
        (f'path = "/a"\ndescripton = ""\n{HANDLER}', "descripton is unknown; did you mean"),
        (f'path = "/a"\nzzz = 1\n{HANDLER}', "zzz is unknown; known are: path, description"),
        (
            f'path = "/a"\ntime_limit_s = 9\n{HANDLER}',
            r"time_limit_s is unknown; limits.time_limit_s stands in the table \[limits\]",
        ),
        (f'path = "/a"\nmax_atempts = 9\n{HANDLER}', "did you mean 'retry.max_attempts'"),
        (f'path = "/a"\nsweep = ["a=1"]\n{HANDLER}', r"seed.sweep stands in the table \[seed\]"),
        (f'{HANDLER}path = "/a"\n', "handler.path is unknown; path stands at the top, before"),
        (MINIMAL + "[limits]\nargv = 1\n", r"limits.argv .* in the table \[handler\]"),
        (MINIMAL + "[retry]\nweight = 1\n", "retry.weight is unknown; weight stands at the top"),
        (MINIMAL + "[seed]\ncores = 1\n", r"seed.cores .* stands in the table \[resources\]"),
        (f'path = "/a"\nretry = 3\n{HANDLER}', "retry must be a table, not 3"),
        (MINIMAL + "[retry]\nmax_atempts = 3\n", "retry.max_atempts is unknown; did you mean"),
        (MINIMAL + "[retry]\nmax_attempts = 0\n", "retry.max_attempts must be a whole number"),
        (MINIMAL + "[retry]\nmax_attempts = 2.0\n", "not 2.0"),
        (MINIMAL + "[retry]\nmax_losses = true\n", "retry.max_losses .* not True"),
        (MINIMAL + "[retry]\nbackoff_s = -1\n", "retry.backoff_s must be a number of seconds"),
        (MINIMAL + "[retry]\nbackoff_max_s = inf\n", "retry.backoff_max_s .* not inf"),
        (MINIMAL + "[retry]\nbackoff_s = 7200\n", "retry.backoff_s .7200. is longer than"),
        (MINIMAL + "[limits]\ntime_limit_s = 0\n", "time_limit_s must be .* seconds above 0"),
        (MINIMAL + "[limits]\ntime_limit_s = -0.0\n", "limits.time_limit_s must be .* not -0.0"),
        (MINIMAL + "[limits]\ntime_limit_s = nan\n", "limits.time_limit_s must be .* not nan"),
        (MINIMAL + '[limits]\ntime_limit_s = "1h"\n', "limits.time_limit_s must be .* not '1h'"),
        (MINIMAL + "[limits]\ntime_limit = 9\n", "did you mean 'time_limit_s'"),
        (MINIMAL + "[limits]\nmax_running = 0\n", "limits.max_running must be .* not 0"),
        (MINIMAL + "[limits]\nmax_failure_share = 1\n", "max_failure_share .* below 1, not 1"),
        (MINIMAL + "[retry]\nnever_retry = 'x'\n", "retry.never_retry must be a list"),
        (MINIMAL + "[retry]\nnever_retry = ['']\n", r"never_retry\[0\] must have 1 to 200"),
        (MINIMAL + "[results]\nrequire = 'score'\n", "results.require: it must be a list"),
        (MINIMAL + "[results]\nrequire = ['score <= x']\n", "results.require: .* must read NAME"),
        (MINIMAL + "[results]\nrequire = [{ kind = 'number' }]\n", "neither a name nor a table"),
        (MINIMAL + "[results]\nrequire = [{ name = 'a', mn = 1 }]\n", "'mn' is unknown; known"),
        (MINIMAL + "[results]\nrequire = ['a text >= 1']\n", "only a number has bounds"),
        (MINIMAL + "[results]\nrequire = ['a >= 1 <= 0']\n", "no number is within these"),
        (MINIMAL + "[results]\nrequire_files = ['p']\n", "needs limits.output_bytes"),
        (MINIMAL + "[results]\nrequire_files = ['../p']\n", "'../p' is no name of a file"),
        (MINIMAL + "[retry]\nmax_lost_hosts = 0\n", "retry.max_lost_hosts must be .* not 0"),
        (MINIMAL + "[retry]\nmax_out_of_time = 0\n", "max_out_of_time must be .* not 0"),
        ('late_results = "keep"\n' + MINIMAL, "late_results must be one of reject, salvage"),
        (MINIMAL + "[limits]\nmax_running = 1.5\n", "limits.max_running .* whole number"),
        (MINIMAL + "[limits]\nmax_running = 1_000_001\n", "limits.max_running .* 1,000,000"),
        (f"weight = 0\n{MINIMAL}", "weight must be a number above 0, at most 1,000, not 0"),
        (f"weight = 1000.5\n{MINIMAL}", "weight must be .* not 1000.5"),
        (f"weight = nan\n{MINIMAL}", "weight must be .* not nan"),
        (f"weight = true\n{MINIMAL}", "weight must be .* not True"),
        (f'requires = "gpu"\n{MINIMAL}', "requires must be a list of tags"),
        (f'requires = ["mem>16"]\n{MINIMAL}', "the tag 'mem>16' must read NAME, NAME=VALUE or"),
        (MINIMAL + "[params]\na.b = [1, nan]\n", r"params\.a\.b\[1\] is nan"),
        (MINIMAL + "[params]\nstarted = 2024-01-31\n", "params.started is a date.* in quotes"),
        (MINIMAL + "[params]\nx = [{ at = 07:30:00 }]\n", r"params\.x\[0\]\.at is a time"),
        (MINIMAL + '[params]\nx = "a\\u0000"\n', "params.x contains a NUL"),
        (MINIMAL + '[params]\n"a\\u0000" = 1\n', "a key of params contains a NUL"),
        (MINIMAL + f"[params]\nx = {2**63}\n", "params.x is a whole number of more than 64 bits"),
        (MINIMAL + f"[params]\nx = {'1' * 5000}\n", "not TOML"),
        (MINIMAL + f'[params]\nx = "{"a" * 262_144}"\n', "params of 2621.. bytes; 262144 at most"),
        (MINIMAL + f"[params]\nx = {'[' * 70}{']' * 70}\n", "nested more than 64 deep"),
        (MINIMAL + f"[params]\nx = {'[' * 100_000}\n", "not TOML"),
        (MINIMAL + "[seed]\n", "seed.file is missing"),
        (MINIMAL + '[seed]\nkey = "id"\nsweep = ["a=1"]\n', "seed.file is missing"),
        (MINIMAL + "[seed]\nfile = 3\n", "seed.file must be text"),
        (MINIMAL + '[seed]\nfile = "a.xyz"\n', "seed: .*a.xyz: the name does not show the format"),
        (MINIMAL + '[seed]\nfile = "a.smi"\nkey = "id"\n', "seed: .*'key' does not apply"),
        (MINIMAL + '[seed]\nfile = "a.smi"\nheader = "no"\n', "seed: header must be true or false"),
        (MINIMAL + '[seed]\nfile = "a.csv"\nkeys = "id"\n', "seed.keys is unknown; did you mean"),
        (MINIMAL + '[seed]\nsweep = "a=1"\n', "seed.sweep must be a list"),
        (MINIMAL + '[seed]\nsweep = ["a=2:1"]\n', "seed: sweep 'a=2:1'"),
        ("path = \n", r"not TOML: .*line 1"),
        (b'path = "\xff"\n', "not TOML: .*byte 0xff"),
    ],
)  # fmt: skip
def test_bad_file_names_the_file_and_the_key(
    tmp_path: Path, text: str | bytes, reason: str
) -> None:
    """Whatever is wrong, the message says in which file and at which key."""
    with pytest.raises(InvalidCampaign, match=rf"campaign\.toml: .*{reason}"):
        read(tmp_path, text)


@pytest.mark.parametrize(
    ("handler", "reason"),
    [
        ({}, "handler.kind is missing"),
        ({"kind": "shell", "argv": ["x"]}, "handler.kind must be one of python, command, process"),
        ({"kind": ["python"]}, "handler.kind must be one of"),
        ({"kind": "python"}, "handler.target is missing"),
        ({"kind": "python", "target": "dock"}, "handler.target must read module:function"),
        ({"kind": "python", "target": "dock:"}, "handler.target must read"),
        ({"kind": "python", "target": "a b:c"}, "handler.target must read"),
        ({"kind": "python", "target": "a:b:c"}, "handler.target must read"),
        ({"kind": "python", "target": 3}, "handler.target must read"),
        ({"kind": "python", "target": "a:b", "prepare": "x"}, "handler.prepare must read"),
        ({"kind": "python", "target": "a:b", "argv": ["x"]}, "handler.argv does not go with"),
        ({"kind": "command"}, "handler.argv must be a list"),
        ({"kind": "command", "argv": []}, "handler.argv must be a list"),
        ({"kind": "command", "argv": [""]}, "starts with a program"),
        ({"kind": "command", "argv": "vina --cpu 1"}, "handler.argv must be a list"),
        ({"kind": "command", "argv": ["vina", 1]}, r"handler.argv\[1\] must be text, not 1"),
        ({"kind": "command", "argv": ["a\0"]}, r"handler.argv\[0\] contains a NUL"),
        ({"kind": "command", "argv": ["a"] * 20_000}, "handler.argv of 100000 bytes"),
        ({"kind": "command", "argv": ["a"], "target": "a:b"}, "handler.target does not go with"),
        ({"kind": "process", "argv": ["a"], "prepare": "a:b"}, "handler.prepare does not go"),
        ({"kind": "python", "target": "a:b", "tasks_per_child": 0}, "tasks_per_child must be 1 or"),
        ({"kind": "process", "argv": ["a"], "tasks_per_child": "9"}, "must be 1 or more, not '9'"),
        ({"kind": "command", "argv": ["a"], "tasks_per_child": 9}, "tasks_per_child does not go"),
        ({"kind": "command", "argv": ["a"], "arg": 1}, "did you mean 'argv'"),
        ("python", "handler must be a table"),
    ],
)  # fmt: skip
def test_bad_handler_is_named(handler: Any, reason: str) -> None:
    """A handler is exactly one kind, with what that kind needs and nothing else."""
    with pytest.raises(InvalidCampaign, match=reason):
        Handler.from_json(handler)


def test_absent_unreadable_and_huge_files(tmp_path: Path) -> None:
    """Anything but a campaign file is refused before it is parsed."""
    with pytest.raises(NotFound, match=r"absent\.toml"):
        read_campaign_file(tmp_path / "absent.toml")
    with pytest.raises(UsageError, match="cannot be read: Is a directory"):
        read_campaign_file(tmp_path)
    with pytest.raises(UsageError, match="larger than"):
        read(tmp_path, MINIMAL + "#" * 2**20)


def test_bad_path_keeps_its_class(tmp_path: Path) -> None:
    """A malformed campaign path is InvalidPath, as everywhere."""
    with pytest.raises(InvalidPath, match=r"campaign\.toml: campaign path 'wisdom'"):
        read(tmp_path, f'path = "wisdom"\n{HANDLER}')


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0\\"), max_size=5)
PARAMS = st.dictionaries(
    TEXTS,
    st.recursive(
        st.one_of(
            st.none(),
            st.booleans(),
            st.integers(-(2**63), 2**63 - 1),
            st.floats(allow_nan=False, allow_infinity=False),
            TEXTS,
        ),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)
        ),
        max_leaves=6,
    ),
    max_size=3,
)
HANDLERS = st.one_of(
    st.none(),
    st.builds(
        Handler,
        st.just("python"),
        target=st.just("a.b:c"),
        prepare=st.sampled_from([None, "a:d"]),
    ),
    st.builds(
        Handler,
        st.sampled_from(["command", "process"]),
        argv=st.lists(TEXTS.filter(bool), min_size=1, max_size=3).map(tuple),
    ),
)
SPECS = st.builds(
    CampaignSpec,
    path=st.sampled_from(["/a", "/wisdom/malaria"]),
    description=TEXTS,
    handler=HANDLERS,
    retry=st.builds(
        RetryPolicy,
        max_attempts=st.integers(1, 1000),
        max_losses=st.integers(1, 1000),
        backoff_s=st.floats(0, 10),
        backoff_max_s=st.floats(10, 99),
        never_retry=st.lists(TEXTS.filter(bool), max_size=3).map(tuple),
        max_lost_hosts=st.integers(1, 1000),
        max_out_of_time=st.integers(1, 1000),
    ),
    time_limit_s=st.one_of(st.none(), st.floats(0.001, 1e6)),
    max_running=st.one_of(st.none(), st.integers(1, 1_000_000)),
    weight=st.floats(0, 1000, exclude_min=True),
    late_results=st.sampled_from(["reject", "salvage"]),
    max_failure_share=st.one_of(st.none(), st.floats(0.001, 0.999)),
    requires=st.lists(st.sampled_from(["gpu", "arch=a100", "mem>=16"]), max_size=3).map(tuple),
    require=st.lists(
        st.sampled_from(["score", "pose.energy number", "score number >= -5 <= 0.5"]), unique=True
    ).map(tuple),
    params=PARAMS,
)


@given(SPECS)
def test_spec_survives_json(spec: CampaignSpec) -> None:
    """What is stored of a campaign gives the same campaign again."""
    assert CampaignSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec


@pytest.mark.thorough
@given(
    st.recursive(
        st.one_of(st.none(), st.integers(), st.floats(), st.text(), st.booleans()),
        lambda inner: st.one_of(
            st.lists(inner),
            st.dictionaries(
                st.one_of(
                    st.text(), st.sampled_from(["path", "handler", "retry", "limits", "params"])
                ),
                inner,
            ),
        ),
    )
)
def test_arbitrary_json_is_refused_with_the_documented_error(value: Any) -> None:
    """Whatever a file or a database holds, nothing but UsageError comes of it."""
    try:
        CampaignSpec.from_json(value)
    except UsageError:
        return
    assert value["path"] == "/"


def test_given_argv_list_is_kept_as_a_tuple() -> None:
    """A handler is a value: what made it may change later."""
    argv = ["vina", "--ligand", "{ligand}"]
    handler = Handler("command", argv=argv)  # type: ignore[arg-type]  # callers without mypy do
    argv.append("x")
    assert handler.argv == ("vina", "--ligand", "{ligand}")
