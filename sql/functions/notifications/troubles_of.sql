-- troubles_of(paths): the conditions of troubles, as far as they are at and below some paths: silent agents of
-- campaigns there, while the brake is on, and campaigns there that paused themselves.
--
-- Index: campaign_closed, session_open, campaign_pkey. Plans: it goes through the open sessions only while the brake
-- is on.
-- @roles gateway reader
-- @standby no
-- @gateway no
-- @plan no-jit
create or replace function taskq.troubles_of(p_paths text[], out held bigint, out paused bigint)
language plpgsql stable
as $$
begin
    held := 0;
    if exists (select from taskq.brake b where b.since is not null) then
        select count(*) into held
          from taskq.session s
         cross join lateral taskq.campaign_of(s.campaign_id) c
         where s.ended_at is null
           and s.heartbeat_at + make_interval(secs => s.lease_s / 2) < clock_timestamp()
           and exists (select from unnest(p_paths) as p (path) where taskq.at_or_below(c.path, p.path));
    end if;
    select count(*) into paused
      from taskq.campaign c
     where c.status = 'paused'
       and c.paused_why is not null
       and exists (select from unnest(p_paths) as p (path) where taskq.at_or_below(c.path, p.path));
end
$$;
