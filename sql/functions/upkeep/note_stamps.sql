-- note_stamps(stamps): records that this database was set back if one of the stamps that agents have shown is its own,
-- and of a later round than its last; see stamp() and note_set_back(). Called with stamps that look later only.
--
-- gone_s: at most how many seconds of committed work are gone; null: none, or somebody has recorded it.
--
-- An agent may show any text: without the secret it makes no stamp that counts. It may keep a stamp to itself, or
-- show an old one, which says nothing.
--
-- Locks: the keeper's row, if work is gone; else it writes nothing.
-- @roles serving
create or replace function taskq.note_stamps(p_stamps text[], out gone_s double precision)
language plpgsql
as $$
declare
    v_stamp text;
    v_rounds bigint;
    v_at bigint;
begin
    for v_stamp in
        select distinct s.stamp collate "C" as stamp
          from unnest(p_stamps) as s (stamp)
         where s.stamp ~ '^[0-9]{12}-[0-9]{10}-[0-9a-f]{16}$'
         order by 1 desc
    loop
        v_rounds := left(v_stamp, 12);
        v_at := substr(v_stamp, 14, 10);
        if taskq.stamp_of(v_rounds, v_at) = v_stamp then
            gone_s := (taskq.note_set_back(
                v_rounds, greatest(0, extract(epoch from clock_timestamp()) - v_at))).gone_s;
            return;
        end if;
    end loop;
end
$$;
