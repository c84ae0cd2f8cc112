-- claims_at_site(campaign, site, most): the rows of some sessions that have claimed at a site, from a place drawn at
-- random. A part of site_room(); not for clients.
--
-- From session to session, by the highest number of each: it meets nothing that was replaced. Index: site_claim_pkey.
create or replace function taskq.claims_at_site(p_campaign bigint, p_site text, p_most integer)
returns setof tid
language plpgsql stable
as $$
declare
    v_from constant integer := floor(random() * 4294967296) - 2147483648;
    v_place integer := v_from;
    v_session bigint := -9223372036854775808;
    v_row tid;
    v_again boolean := false;
begin
    while p_most > 0 loop
        select k.ctid, k.place, k.session_id into v_row, v_place, v_session
          from taskq.site_claim k
         where k.campaign_id = p_campaign
           and k.site = p_site
           and (k.place, k.session_id) < (v_place, v_session)
         order by k.place desc, k.session_id desc, k.number desc
         limit 1;
        if found then
            exit when v_again and v_place < v_from;
            return next v_row;
            p_most := p_most - 1;
        else
            exit when v_again;
            v_again := true;
            v_place := 2147483647;
            v_session := 9223372036854775807;
        end if;
    end loop;
end
$$;
