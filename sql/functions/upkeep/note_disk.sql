-- note_disk(place, size, free): notes how much is free of a disk that the queue needs. Called by keepers, some times a
-- minute.
--
-- place: names it. size, free: in bytes. free: null: the size was declared, and what the database and its log (as much
-- as it may grow between checkpoints) leave of it is free.
-- A disk that nobody has measured for a day is forgotten; 20 at most are noted.
-- Error TQ400: a number is negative, or the place is no name.
--
-- Locks: the disk's row. Index: disk_pkey.
-- @roles upkeep
create or replace function taskq.note_disk(p_place text, p_size bigint, p_free bigint)
returns void
language plpgsql
as $$
declare
    v_now constant timestamptz := clock_timestamp();
    v_mean_s constant double precision := 3600;
    -- A twentieth, and no less than what claims and reports of some minutes need, unless the disk is tiny.
    v_kept constant bigint := greatest(least(p_size / 20, 10000000000), least(p_size / 5, 134217728));
    v_free bigint := p_free;
    v_past_s double precision;
    v_share double precision;
begin
    if p_size < 0 or p_free < 0 or length(p_place) not between 1 and 500 then
        raise exception 'no such disk: % of % bytes free at %', p_free, p_size, left(p_place, 100)
            using errcode = 'TQ400';
    end if;
    v_free := coalesce(p_free, greatest(0, p_size - pg_database_size(current_database()) - (
        select pg_size_bytes(s.setting || s.unit) from pg_settings s where s.name = 'max_wal_size')));
    delete from taskq.disk d where d.measured_at < v_now - interval '1 day';
    select extract(epoch from v_now - d.measured_at) into v_past_s
      from taskq.disk d
     where d.place = p_place
       for update;
    if not found then
        insert into taskq.disk (place, free, size, kept, is_full, since, measured_at)
        select p_place, v_free, p_size, v_kept, v_free < v_kept, v_now, v_now
         where (select count(*) from taskq.disk) < 20
            on conflict (place) do nothing;
        return;
    end if;
    v_share := 1 - exp(-greatest(v_past_s, 0) / v_mean_s);
    update taskq.disk d
       set free = v_free,
           size = p_size,
           kept = v_kept,
           is_full = v_free < case when d.is_full then v_kept + v_kept / 4 else v_kept end,
           falls_per_s = d.falls_per_s
                         + (coalesce((d.free - v_free) / nullif(v_past_s, 0), 0) - d.falls_per_s) * v_share,
           measured_at = v_now
     where d.place = p_place;
end
$$;
