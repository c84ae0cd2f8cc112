-- refuse_if_full(what): refuses what takes much room, if a disk that the queue needs is full but for what is kept for
-- reports, claims and removing; see note_disk(). Not for clients.
--
-- what: what is refused. Only what keepers measured within five minutes counts.
-- Error 53100, as of PostgreSQL when a disk is full: it is.
create or replace function taskq.refuse_if_full(p_what text)
returns void
language plpgsql stable
as $$
declare
    v_disk record;
begin
    select d.place, d.free, d.size into v_disk
      from taskq.disk d
     where d.is_full
       and d.measured_at > clock_timestamp() - interval '5 min'
     limit 1;
    if found then
        raise exception 'the disk of % has % MB left, of % MB, which are kept for reports and for removing: % refused',
            v_disk.place, v_disk.free / 1000000, v_disk.size / 1000000, p_what using errcode = '53100';
    end if;
end
$$;
