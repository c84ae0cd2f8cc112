-- timeline(): the number by which agents know this server: it rises when a standby is promoted, and falls
-- only if a server that was replaced comes back in its successor's place, without what was done there.
-- 0: unknown, since the server hides it. Error 55000 on a standby.
--
-- It is that of wal_timeline(); if the server's own began again, such as with pg_upgrade, the earlier ones are
-- added: agents that lived through it would take a lower number for a server that is gone. `serving` may be
-- older than the server; the number allows for that before note_serving() has run, and is the same
-- afterwards. If the server stops showing its timeline, the number stays.
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
