"""Roles: a login may run the statements that its role is for, and do nothing else."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

import taskq
from taskq.db import roles
from taskq.db.catalogue import ROLES, all_statements, statement
from taskq.model.errors import Conflict, NotFound, ServerUnsuitable
from tests.fixtures.logins import Login, Staff
from tests.helpers.postgres import value

#: Not about what is in the schema.
OTHERS = re.compile(
    "begin_migration|create_database|drop_database|drop_function|drop_stale_functions"
    "|grant_functions|lock_installation|login|take_grants|spent|vacuum"
)
TABLES = """
    select c.relname from pg_class c
     where c.relnamespace = 'taskq'::regnamespace and c.relkind in ('r', 'p', 'v', 'S')
"""
WRITES = ("insert", "update", "delete", "truncate")
SECRETS = (
    ("token", "hash"),
    ("session", "token_hash"),
    ("session", "key"),
    ("task", "lease_id"),
    ("attempt", "lease_id"),
    ("front", "secret"),
)


@pytest.fixture
def path() -> str:
    """Give the path of a campaign that no other test has."""
    return f"/{secrets.token_hex(6)}"


@pytest.fixture(scope="module", params=ROLES)
def login(request: pytest.FixtureRequest, staff: Staff) -> Login:
    """Give, in turn, a login of each role."""
    return staff.login(request.param)


def role_of(login: Login) -> str:
    """Return the role that a login was made with."""
    return login.name.partition("_")[0]


@pytest.fixture
def connection(login: Login) -> Iterator[psycopg.Connection]:
    """Give a connection as the login."""
    with psycopg.connect(login.dsn, autocommit=True) as opened:
        yield opened


def test_login_runs_the_statements_of_its_role_only(
    login: Login, connection: psycopg.Connection
) -> None:
    """All others are refused before they have done anything, whatever their arguments."""
    tried = [query for query in all_statements().values() if not OTHERS.fullmatch(query.name)]
    may = {query.name for query in tried if is_permitted(connection, query.name)}
    assert may == {query.name for query in tried if query.is_for(role_of(login))}


def is_permitted(connection: psycopg.Connection, name: str) -> bool:
    """Return whether a statement gets further than its permissions; whatever it does is undone."""
    text = statement(name)
    values: dict[str, str | None] = dict.fromkeys(re.findall(r"%\((\w+)\)s", text))
    if all_statements()[name].on_standby and "path" in values:
        values["path"] = "/"  # what a null rules out is not checked
    try:
        with connection.transaction(force_rollback=True):
            if name == "seed_copy":
                with connection.cursor().copy(text):
                    pass
            else:
                connection.execute(text, values)
    except psycopg.errors.InsufficientPrivilege:
        return False
    except psycopg.Error:
        pass  # nulls are refused by what may be executed
    return True


def test_no_role_writes_a_table(login: Login, connection: psycopg.Connection) -> None:
    """Neither as a whole nor in a column, and it draws from no sequence."""
    names = [name for (name,) in connection.execute(TABLES.encode()).fetchall()]
    assert len(names) > 10
    for name in names:
        for right in WRITES if not name.endswith("_seq") else ("usage", "update"):
            kind = "sequence" if name.endswith("_seq") else "table"
            asked = f"select has_{kind}_privilege(%s, %s)"
            assert connection.execute(asked.encode(), [f"taskq.{name}", right]).fetchone() == (
                False,
            ), (login.name, name, right)
    for right in ("insert", "update", "references"):
        for name in names:
            if not name.endswith("_seq"):
                found = connection.execute(
                    "select has_any_column_privilege(%s, %s)", [f"taskq.{name}", right]
                )
                assert found.fetchone() == (False,), (login.name, name, right)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("create table taskq.mine (x int)")


@pytest.mark.parametrize(("table", "column"), SECRETS)
def test_no_role_reads_a_secret(connection: psycopg.Connection, table: str, column: str) -> None:
    """No hash of a token, no key that opens a session, no fence, no secret of the front."""
    query = sql.SQL("select {} from taskq.{}").format(*map(sql.Identifier, (column, table)))
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute(query)


def test_refusal_says_what_to_ask_for(staff: Staff, path: str) -> None:
    """In one line with exit code 77, also for one who has no role at all."""
    staff.owner.create_campaign(path)
    reader, nobody = staff.login("reader"), staff.login()
    code, error = reader.taskq.refused("campaign", "pause", path)
    assert (code, "permission denied for function set_status" in error) == (77, True)
    assert "taskq db grant" in error
    for words in (["db", "grant", "operator", reader.name], ["audit", path], ["db", "migrate"]):
        result = reader.taskq(*words)
        assert result.exit_code == (0 if words[1] == "migrate" else 77), words
    code, error = nobody.taskq.refused("ls")
    assert (code, "permission denied for schema taskq" in error) == (77, True)


def test_submitter_makes_and_feeds_campaigns(staff: Staff, path: str, tmp_path: Path) -> None:
    """From files and by the library; adding twice adds nothing; a cancelled one is reported."""
    submitter = staff.login("submitter")
    run = submitter.taskq
    run.out("campaign", "create", path, "--", "true", "{n}")
    run.out("campaign", "change", path, "--weight", 2)
    seeds = tmp_path / "seeds.jsonl"
    seeds.write_text("".join(f'{{"n": {n}, "odd": "\\t\\\\é\\""}}\n' for n in range(12_000)))
    for added in (12_000, 0):
        assert run.json("seed", path, str(seeds))["added"] == added
    (tmp_path / "receptor").write_bytes(b"x" * 3_000_000)
    run.out("input", "add", path, str(tmp_path / "receptor"))
    with taskq.connect(submitter.dsn) as queue:
        campaign = queue.campaign(path)
        assert campaign.submit({"n": -1})
        assert campaign.status().waiting == 12_001
        assert next(campaign.tasks()).payload == {"n": 0, "odd": '\t\\é"'}
        staff.owner.campaign(path).cancel()
        with pytest.raises(Conflict, match="cancelled"):
            campaign.seed([{"n": 7}])


@pytest.mark.thorough
def test_agent_and_reader_and_operator_work_together(staff: Staff, path: str) -> None:
    """Each by its commands: tasks are executed next to the database, read, steered and deleted."""
    campaign = staff.owner.create_campaign(
        taskq.CampaignSpec(
            path,
            handler=taskq.Handler("command", argv=("test", "{n}", "-lt", "3")),
            retry=taskq.RetryPolicy(max_attempts=1),
        )
    )
    campaign.seed(taskq.Seed({"n": n}, f"n={n}") for n in range(4))
    agent, reader, operator = (staff.login(role) for role in ("agent", "reader", "operator"))
    run = ["agent", "run", "--campaign", path, "--until-empty", "--quiet"]
    with agent.taskq.process(*run) as process:
        said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    status = reader.taskq.json("status", path)
    assert (status["done"], status["failed"]) == (3, 1)
    for words in (["ls"], ["tree"], ["tasks", path], ["results", path], ["failures", path]):
        reader.taskq.out(*words)
    for words in (["logs", path, "n=3"], ["export", path], ["agents", "list"], ["token", "list"]):
        reader.taskq.out(*words)
    reader.taskq.out("front", "status")
    steer = operator.taskq
    steer.out("campaign", "pause", path)
    steer.out("campaign", "resume", path)
    assert steer.json("retry", path, "--yes")["tasks"] == 1
    steer.out("agents", "drain", "--name", path)
    token = steer.out("token", "create", path[1:], "--kind", "site", "--campaign", path).strip()
    assert token.startswith("tqe_")
    steer.out("token", "revoke", path[1:])
    steer.out("db", "clean")
    steer.out("campaign", "rm", path, "--yes")
    with pytest.raises(NotFound):
        staff.owner.campaign(path)


def test_roles_add_up_and_go_one_by_one(staff: Staff) -> None:
    """What two roles share stays with the second; nothing stays with nobody's."""
    both = staff.login("operator")
    grant, revoke = staff.taskq.json, staff.taskq.json
    assert grant("db", "grant", "submitter", both.name)["changed"] is True
    assert grant("db", "grant", "submitter", both.name)["changed"] is False
    (its,) = [record for record in staff.taskq.json("db", "roles") if record["login"] == both.name]
    assert its["roles"] == ["operator", "submitter"]
    assert "changed" not in revoke("db", "revoke", "operator", both.name, "--dry-run")
    assert revoke("db", "revoke", "operator", both.name)["changed"] is True
    with psycopg.connect(both.dsn, autocommit=True) as connection:
        assert is_permitted(connection, "tasks")
        assert is_permitted(connection, "submit")
        assert not is_permitted(connection, "cancel")
        assert revoke("db", "revoke", "submitter", both.name)["changed"] is True
        assert not is_permitted(connection, "tasks")
        assert not is_permitted(connection, "installation")
    assert revoke("db", "revoke", "submitter", both.name)["changed"] is False


def test_gateways_role_serves_and_steers_nothing(staff: Staff) -> None:
    """Managers' statements need the role `manager` too."""
    for named, steers in ((("gateway",), False), (("gateway", "manager"), True)):
        with psycopg.connect(staff.login(*named).dsn) as connection:
            assert is_permitted(connection, "exchange")
            for name in ("submit", "seed_tasks", "set_status", "cancel", "remove_tasks"):
                assert is_permitted(connection, name) is steers, name


def test_only_logins_that_need_one_get_a_role(staff: Staff) -> None:
    """A name that the server does not know is reported, and its owner cannot lose what it owns."""
    code, error = staff.taskq.refused("db", "grant", "reader", "no such; drop table")
    assert (code, "no login 'no such; drop table'" in error) == (66, True)
    code, error = staff.taskq.refused("db", "grant", "reader", "")
    assert (code, "is empty" in error) == (2, True)
    code, error = staff.taskq.refused("db", "grant", "reader", "public")
    assert code == 66
    owner = psycopg.conninfo.conninfo_to_dict(staff.owner.database.dsn)["user"]
    code, error = staff.taskq.refused("db", "revoke", "reader", owner)
    assert (code, "owns the schema" in error) == (3, True)
    assert staff.taskq("db", "grant", "king", "me").exit_code == 2


def test_members_of_a_group_have_its_rights(staff: Staff) -> None:
    """A role of the server that cannot log in; the message says that it is a group."""
    member, group = staff.login(), f"group_{secrets.token_hex(4)}"
    with psycopg.connect(staff.owner.database.dsn, autocommit=True) as admin:
        admin.execute(sql.SQL("create role {}").format(sql.Identifier(group)))
        admin.execute(
            sql.SQL("grant {} to {}").format(sql.Identifier(group), sql.Identifier(member.name))
        )
    assert staff.taskq.out("db", "grant", "reader", group).startswith(f"Each member of {group} ")
    member.taskq.out("ls")
    code, error = member.taskq.refused("campaign", "pause", "/")
    assert (code, "permission denied" in error) == (77, True)
    staff.taskq.out("db", "revoke", "reader", group)
    assert member.taskq.refused("ls")[0] == 77


def test_name_of_a_login_is_quoted(staff: Staff) -> None:
    """It reaches SQL as a name, whatever is in it."""
    odd = f'a"b {secrets.token_hex(4)}; drop schema taskq cascade'
    with psycopg.connect(staff.owner.database.dsn, autocommit=True) as admin:
        admin.execute(sql.SQL("create role {}").format(sql.Identifier(odd)))
    assert roles.grant(staff.owner.database, "reader", odd)
    assert roles.granted(staff.owner.database)[odd] == ["reader"]


@pytest.mark.thorough
def test_migrating_grants_anew(staff: Staff) -> None:
    """A function that a release has dropped and made anew is its callers' again."""
    reader = staff.login("reader")
    with psycopg.connect(staff.owner.database.dsn, autocommit=True) as admin:
        admin.execute("drop function taskq.counts(text, integer)")
        admin.execute("update taskq.installation set functions = 'older'")
    staff.taskq.out("db", "migrate")
    assert reader.taskq.json("ls") is not None


def test_login_that_was_dropped_is_forgotten(staff: Staff) -> None:
    """One that gets its name later has no role, also after an upgrade."""
    gone = staff.login("operator")
    name = sql.Identifier(gone.name)
    with psycopg.connect(staff.owner.database.dsn, autocommit=True) as admin:
        admin.execute(sql.SQL("drop owned by {}").format(name))
        admin.execute(sql.SQL("drop role {}").format(name))
        admin.execute(sql.SQL("create role {} login password 'hunter2-marker'").format(name))
        admin.execute("update taskq.installation set functions = 'older'")
    staff.taskq.out("db", "migrate")
    assert gone.name not in roles.granted(staff.owner.database)
    with pytest.raises(ServerUnsuitable, match="permission denied for schema taskq"):
        taskq.connect(gone.dsn)


def test_executable_functions_are_the_roles_only(login: Login, staff: Staff) -> None:
    """Each has its owner's rights and looks nothing up elsewhere; internal ones are nobody's."""
    with psycopg.connect(staff.owner.database.dsn, row_factory=psycopg.rows.dict_row) as admin:
        found = admin.execute(
            "select proname, prosecdef, proconfig from pg_proc"
            " where pronamespace = 'taskq'::regnamespace and has_function_privilege(%s, oid,"
            " 'execute') and provolatile <> 'i'",
            [login.name],
        ).fetchall()
        assert value(admin, "select count(*) from pg_roles where rolname = %s", login.name) == 1
    assert found
    for record in found:
        assert record["prosecdef"], record["proname"]
        assert "search_path=pg_catalog, pg_temp" in record["proconfig"], record["proname"]
