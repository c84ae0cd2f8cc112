-- timeline(): the number by which agents know this server: it rises when a standby is promoted, and falls
-- only if a server that was replaced comes back in its successor's place, with what was done there undone.
-- 0: not known, since the server does not tell. Error 55000 on a standby.
--
-- It is that of wal_timeline(), to which the earlier ones are added where the server's own began anew, as
-- with pg_upgrade: agents that lived through it would take a lower number for a server that is gone. What
-- is noted in `serving` may be older than the server, so that is reckoned with before note_serving() has
-- seen it, and the number is the same afterwards. Where the server has stopped telling, it stays.
-- @roles all
-- @standby no
-- @gateway no
create or replace function taskq.timeline()
returns bigint
language plpgsql
as $$
declare
    v_own constant bigint := taskq.wal_timeline();
begin
    return (
        select s.earlier + case when v_own < s.timeline then s.timeline else 0 end + v_own
          from taskq.serving s);
end
$$;
