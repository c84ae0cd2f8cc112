-- shares_of(session): what the slots of a session have of its node, as its last heartbeat said, by slot: devices and
-- resources, see shares_in(), and the path of the campaign that has them; null if a manager's token is not for it.
-- Index: session_pkey, campaign_pkey.
-- @roles reader
-- @standby no
-- @gateway no
create or replace function taskq.shares_of(p_session bigint)
returns jsonb
language plpgsql stable
as $$
begin
    return (
        select coalesce(
                   jsonb_agg(
                       jsonb_build_object('slot', i.slot, 'path', case when taskq.token_covers(c.path) then c.path end)
                           || i.has
                       order by i.slot),
                   '[]')
          from taskq.session_of(p_session) s
         cross join lateral taskq.shares_in(s.said) i
          left join lateral taskq.campaign_of(i.campaign_id) c on true);
end
$$;
