-- owners(path, within): the owners of campaigns at and below a path, with the counts of all their campaigns and their
-- quotas; owners with most waiting and running tasks come first.
--
-- within: count only campaigns at and below these paths, which are those that the caller may see.
-- campaigns, waiting (with those that are delayed), working, bytes: as tasks_of_owner() and stored_bytes() count
--     them; a manager's token counts only its campaigns.
--     max_running, max_waiting, max_bytes: null: any amount. is_full: see stop_full_owners(). is_held: whether none
--     of the owner's tasks is handed out now, since that quota or max_running is used up, wherever.
-- For / it also returns owners with a quota and no campaign.
-- Error TQ404: no such campaign.
--
-- Reads no task; it costs a look-up for each campaign of these owners, and goes through the deltas once.
-- Index: campaign_path_key, campaign_owner, counter_pkey, output_use_pkey, delta_xid, campaign_pkey.
-- @roles gateway reader
-- @standby yes
-- @gateway manager
-- @plan generic by-one-key
create or replace function taskq.owners(p_path text, p_within text[] default '{/}')
returns table (
    owner text,
    campaigns bigint,
    waiting bigint,
    working bigint,
    bytes bigint,
    max_running integer,
    max_waiting bigint,
    max_bytes bigint,
    weight double precision,
    is_full boolean,
    is_held boolean
)
language plpgsql stable
set enable_mergejoin = off
as $$
begin
    perform taskq.campaign_id(p_path);
    return query
        with known as materialized (
            select distinct c.owner
              from taskq.subtree(p_path) c
             where c.owner is not null
             union
            select q.owner
              from taskq.quota q
             where p_path = '/'
        ), part as (
            select k.owner, c.is_seen, 1 as campaigns, coalesce(n.waiting + n.delayed, 0) as waiting,
                   coalesce(n.working, 0) as working, i.bytes + o.bytes as bytes
              from known k
             cross join lateral (
                 select c.campaign_id, c.inputs, c.keep_inputs,
                        taskq.token_covers(c.path) and exists (
                            select from unnest(p_within) as w (path) where taskq.at_or_below(c.path, w.path)
                        ) as is_seen
                   from taskq.campaign c
                  where c.owner = k.owner
                 offset 0
             ) c
              left join lateral taskq.counter_of(c.campaign_id) n on true
             cross join lateral (
                 select coalesce(taskq.total(i.size), 0) as bytes
                   from taskq.stored_inputs(c.campaign_id, c.inputs, c.keep_inputs) i
             ) i
             cross join lateral (
                 select coalesce(taskq.total(u.bytes), 0) as bytes
                   from taskq.output_use u
                  where u.campaign_id = c.campaign_id
                 offset 0
             ) o
             union all
            select c.owner,
                   taskq.token_covers(c.path) and exists (
                       select from unnest(p_within) as w (path) where taskq.at_or_below(c.path, w.path)),
                   0, d.waiting, d.working, 0
              from (
                  select d.campaign_id, taskq.total(d.waiting + d.delayed) as waiting,
                         taskq.total(d.working) as working
                    from taskq.unfolded() d
                   group by d.campaign_id
              ) d
             cross join lateral taskq.campaign_of(d.campaign_id) c
        ), own as materialized (
            select p.owner, taskq.total(p.campaigns) filter (where p.is_seen) as campaigns,
                   taskq.total(p.waiting) filter (where p.is_seen) as waiting,
                   taskq.total(p.working) filter (where p.is_seen) as working,
                   taskq.total(p.bytes) filter (where p.is_seen) as bytes,
                   taskq.total(p.working) as all_working
              from part p
             group by p.owner
        )
        select k.owner, coalesce(o.campaigns, 0), coalesce(o.waiting, 0), coalesce(o.working, 0),
               coalesce(o.bytes, 0), q.max_running, q.max_waiting, q.max_bytes, coalesce(q.weight, 1),
               coalesce(q.is_full, false),
               coalesce(q.is_full or o.all_working >= q.max_running, false)
          from known k
          left join own o on o.owner = k.owner
          left join taskq.quota q on q.owner = k.owner
         order by coalesce(o.waiting + o.working, 0) desc, k.owner;
end
$$;
