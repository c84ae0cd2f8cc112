-- note_stall(last): records that the queue stands still, or stood still since the last round of a keeper: nobody could
-- claim or report, whatever the agents did. Called by the keeper before it judges anything.
--
-- last: when the last round began; null: there was none.
-- It stood still since then if that is longer ago than keepers need to take over from each other: the server was down,
-- suspended, or refused to write. It stands still while a session waits for 5 seconds or more to read or write a table
-- of the queue that another one keeps for itself.
--
-- A stall that goes on makes the row longer. Keeps the latest 1,000.
-- Locks: none that others wait for. Reads the catalogs of locks and one row, unless the queue stands still.
create or replace function taskq.note_stall(p_last timestamptz)
returns void
language plpgsql
as $$
declare
    v_most constant integer := 1000;
    v_now constant timestamptz := clock_timestamp();
    v_since timestamptz;
begin
    select least(
               min(l.waitstart),
               case when p_last > '-infinity' and p_last < v_now - interval '15 s' then p_last end)
      into v_since
      from pg_locks l
     where l.locktype = 'relation'
       and not l.granted
       and l.mode in ('AccessShareLock', 'RowShareLock', 'RowExclusiveLock')
       and l.waitstart < v_now - interval '5 s'
       and l.database = (select d.oid from pg_database d where d.datname = current_database())
       and l.relation in (select c.oid from pg_class c where c.relnamespace = 'taskq'::regnamespace);
    if v_since is null then
        return;
    end if;
    update taskq.stall s
       set since = least(s.since, v_since),
           until = v_now
     where s.since = (select max(f.since) from taskq.stall f)
       and s.until between v_since - interval '5 s' and v_now;
    if found then
        return;
    end if;
    insert into taskq.stall (since, until) values (v_since, v_now)
        on conflict (since) do update
       set until = excluded.until;
    delete from taskq.stall s
     where s.since < (select f.since from taskq.stall f order by f.since desc limit 1 offset v_most - 1);
end
$$;
