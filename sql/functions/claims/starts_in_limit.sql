-- starts_in_limit(name): how many starts count towards a named limit. A part of limit_room() and others; not for
-- clients.
--
-- A session counts for the tasks that it holds, and for no more than its slots, since it starts no more at a time: so
-- a batch is one start, and so are tasks claimed ahead. Tasks that have ended count until a claim or the keeper
-- finds that, see limit_room().
--
-- It costs a look at each claim that counts. Index: limit_claim_pkey.
create or replace function taskq.starts_in_limit(p_name text)
returns bigint
language plpgsql stable
as $$
begin
    return (
        select coalesce(sum(least(h.slots, h.tasks)), 0)
          from (
              select max(k.slots) as slots, sum(k.tasks) as tasks
                from taskq.limit_claim k
               where k.name = p_name
               group by k.session_id
          ) h);
end
$$;
