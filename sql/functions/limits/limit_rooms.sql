-- limit_rooms(): how many more starts each named limit allows. A part of unfinished_campaigns(); not for clients.
--
-- Of a limit that is reached it looks at some sessions, as limit_room() does: ended tasks make room that the next claim
-- finds. Index: limit_claim_pkey, limit_total_pkey, and those of working_of_claim().
-- @plan generic by-one-key
create or replace function taskq.limit_rooms()
returns table (name text, room bigint)
language plpgsql stable
as $$
begin
    return query
        select l.name,
               case when u.used < l.most or l.most = 0 then l.most - u.used
                    else (select coalesce(sum(least(k.slots, k.tasks) - least(k.slots, w.tasks)), 0)::bigint
                            from taskq.claims_in_limit(0, l.name, 100) k
                           cross join lateral taskq.kept_claims(k.session_id, k.campaigns, k.leases, k.counts) w)
               end
          from taskq.named_limit l
         cross join lateral (select taskq.starts_in_limit(0, l.name) as used offset 0) u;
end
$$;
