-- claims_in_limit(name, most): some of the claims that count towards a named limit, from a place drawn at random. A part
-- of limit_room() and limit_rooms(); not for clients.
--
-- Index: limit_claim_pkey.
create or replace function taskq.claims_in_limit(p_name text, p_most integer)
returns table (row_id tid, campaign_id bigint, session_id bigint, lease_id uuid, tasks integer)
language plpgsql stable
as $$
declare
    v_from bigint;
begin
    select l.low + floor(random() * (l.high - l.low + 1))::bigint into v_from
      from (
          select min(k.session_id) as low, max(k.session_id) as high
            from taskq.limit_claim k
           where k.name = p_name
      ) l;
    return query
        select o.*
          from (
              (select k.ctid, k.campaign_id, k.session_id, k.lease_id, k.tasks
                 from taskq.limit_claim k
                where k.name = p_name
                  and k.session_id >= v_from
                order by k.name, k.session_id, k.lease_id
                limit p_most)
               union all
              (select k.ctid, k.campaign_id, k.session_id, k.lease_id, k.tasks
                 from taskq.limit_claim k
                where k.name = p_name
                  and k.session_id < v_from
                order by k.name, k.session_id, k.lease_id
                limit p_most)
          ) o
         limit p_most;
end
$$;
