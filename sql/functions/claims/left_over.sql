-- left_over(path, offers): the unfinished tasks at and below a path, and those that no agent can claim.
--
-- offers: the agent's tags; null: do not check tags.
-- unfinished: tasks that are waiting, delayed or working. unservable: those of them whose campaign has
--     no handler, has paused itself, or requires tags that are not offered: they will not be claimed
--     unless somebody changes that. campaigns: these, most tasks first, five at most, as objects with
--     path, has_handler, paused_why and requires. more: how many more of them there are.
-- Error TQ404: no such campaign.
--
-- Reads no task; it costs twice as much as counts(), with the same plans. Index: those of counts(),
-- counter_pkey, campaign_pkey.
-- @roles all
-- @standby yes
-- @gateway manager
-- @plan generic by-key
create or replace function taskq.left_over(
    p_path text,
    p_offers text[],
    out unfinished bigint,
    out unservable bigint,
    out campaigns jsonb,
    out more bigint
)
language plpgsql stable
as $$
declare
    v_most constant integer := 5;
    v_top constant bigint := taskq.campaign_id(p_path);
begin
    select c.waiting + c.delayed + c.working into unfinished from taskq.counts(p_path, 0) c;
    with part as (
        select c.campaign_id, n.waiting + n.delayed + n.working as tasks
          from taskq.perhaps_unfinished(p_path) u
         cross join lateral taskq.campaign_of(u.campaign_id) c
         cross join lateral taskq.counter_of(c.campaign_id) n
         where not taskq.servable_ever(c.handler is not null, c.paused_why, c.requires, p_offers)
         union all
        select c.campaign_id, d.waiting + d.delayed + d.working
          from taskq.unfolded() d
         cross join lateral taskq.campaign_of(d.campaign_id) c
         where v_top = any (c.lineage)
           and not taskq.servable_ever(c.handler is not null, c.paused_why, c.requires, p_offers)
    ), vain as materialized (
        select p.campaign_id, taskq.total(p.tasks) as tasks
          from part p
         group by p.campaign_id
        having sum(p.tasks) > 0
    ), named as (
        select v.tasks,
               row_number() over (order by v.tasks desc, c.path) as place,
               jsonb_build_object('path', c.path, 'has_handler', c.handler is not null,
                                  'paused_why', c.paused_why, 'requires', c.requires) as facts
          from vain v
         cross join lateral taskq.campaign_of(v.campaign_id) c
    )
    select coalesce(taskq.total(t.tasks), 0),
           coalesce(jsonb_agg(t.facts order by t.place) filter (where t.place <= v_most), '[]'),
           count(*) filter (where t.place > v_most)
      into unservable, campaigns, more
      from named t;
end
$$;
