-- front_name(): the name of this queue's front among others that use the same Redis. It is of this database on this
-- server: a copy that pg_dump or `create database ... template` has made has another one, so that neither hands out
-- what the other has leased. A standby that is promoted keeps it.
--
-- A server that hides its system identifier counts as any other; then only databases on one server are kept apart.
-- Where only files were copied, and both servers run, the name is the same.
-- @roles reader upkeep
-- @standby no
-- @gateway no
create or replace function taskq.front_name()
returns text
language plpgsql stable
as $$
declare
    v_server bigint := 0;
begin
    begin
        v_server := (select c.system_identifier from pg_control_system() c);
    exception
        when insufficient_privilege then
            null;
    end;
    return (
        select f.name || '-' || left(md5(v_server || ' ' || d.oid), 8)
          from taskq.front f
          join pg_database d on d.datname = current_database());
end
$$;
