-- claims_in_limit(campaign, name, most): the rows of some sessions whose claims count towards a limit, from a place drawn
-- at random. A part of limit_room() and others; not for clients.
--
-- most: null: all. From session to session, by the highest number of each: it meets nothing that was replaced.
-- Index: limit_claim_pkey.
create or replace function taskq.claims_in_limit(p_campaign bigint, p_name text, p_most integer)
returns table (
    row_id tid,
    session_id bigint,
    slots integer,
    campaigns bigint[],
    leases uuid[],
    counts integer[],
    tasks bigint
)
language plpgsql stable
as $$
declare
    v_from constant integer := floor(random() * 4294967296) - 2147483648;
    v_place integer := v_from;
    v_again boolean := false;
begin
    session_id := -9223372036854775808;
    while p_most is null or p_most > 0 loop
        select k.ctid, k.place, k.session_id, k.slots, k.campaigns, k.leases, k.counts, k.tasks
          into row_id, v_place, session_id, slots, campaigns, leases, counts, tasks
          from taskq.limit_claim k
         where k.campaign_id = p_campaign
           and k.name = p_name
           and (k.place, k.session_id) < (v_place, claims_in_limit.session_id)
         order by k.place desc, k.session_id desc, k.number desc
         limit 1;
        if found then
            exit when v_again and v_place < v_from;
            return next;
            p_most := p_most - 1;
        else
            exit when v_again;
            v_again := true;
            v_place := 2147483647;
            session_id := 9223372036854775807;
        end if;
    end loop;
end
$$;
