-- What nodes have too little of for one more start of some campaigns at and below a path, as the last heartbeats of
-- their agents said: by campaign and resource. resource: the name of one, or gpus. agents: those that serve the
-- campaign, offer enough, and have too little free. holders: slots that have some of it there, by the path of their
-- campaign; empty for campaigns that a token is not for.
-- It reads `limit` rows at most. Index: session_open, campaign_pkey.
-- @roles reader
-- @standby yes
-- @gateway manager
with asked as (
    select c.campaign_id, c.path, c.gpus, taskq.needed_resources(c.named_resources) as needs
      from unnest(%(chosen)s::bigint[]) as chosen (campaign_id)
     cross join lateral (
         select c.campaign_id, c.path, c.gpus, c.named_resources
           from taskq.campaign c
          where c.campaign_id = chosen.campaign_id
            and taskq.at_or_below(c.path, %(path)s)
         offset 0
     ) c
), living as materialized (
    select s.session_id, s.host, s.offers, c.path as scope, h.campaign_id, h.slot, h.has
      from taskq.session s
     cross join lateral (
         select c.path from taskq.campaign c where c.campaign_id = s.campaign_id offset 0
     ) c
     cross join lateral taskq.shares_in(s.said) h
     where s.ended_at is null
       and not s.drain
       and s.said ? 'shares'
       and (taskq.at_or_below(c.path, %(path)s) or taskq.at_or_below(%(path)s, c.path))
), device as (
    select l.session_id, d.name, sum(d.part::double precision) as used
      from living l
     cross join lateral jsonb_each_text(l.has -> 'devices') as d (name, part)
     group by l.session_id, d.name
), node as (
    select l.session_id, l.scope, l.host, l.offers,
           coalesce((select max(substring(o.tag from '^gpus=([0-9]{1,6})$')::integer) from unnest(l.offers) as o (tag)), 0)
               as gpus,
           coalesce((select array_agg(d.used) from device d where d.session_id = l.session_id), '{}') as used
      from (select distinct l.session_id, l.scope, l.host, l.offers from living l) l
), short as (
    select a.path, n.session_id, n.host, 'gpus' as resource
      from asked a
      join node n on taskq.at_or_below(a.path, n.scope)
     where a.gpus > 0
       and a.gpus <= n.gpus
       and case when a.gpus < 1
                then n.gpus <= cardinality(n.used)
                     and (select bool_and(u.part + a.gpus > 1.0005) from unnest(n.used) as u (part))
                else n.gpus - cardinality(n.used) < a.gpus end
    union all
    select a.path, n.session_id, n.host, r.name
      from asked a
     cross join lateral jsonb_each_text(a.needs) as r (name, amount)
      join node n on taskq.at_or_below(a.path, n.scope)
     cross join lateral (
         select max(substring(o.tag from '=([0-9]{1,15})$')::bigint) as amount
           from unnest(n.offers) as o (tag)
          where starts_with(o.tag, 'resource.' || r.name || '=')
     ) has
     where has.amount >= r.amount::bigint
       and has.amount - (
               select coalesce(sum((l.has -> 'resources' ->> r.name)::bigint), 0)
                 from living l
                where l.session_id = n.session_id) < r.amount::bigint
), holder as (
    select s.path, s.resource, coalesce(h.path, '') as holder, count(*) as slots
      from short s
      join living l on l.session_id = s.session_id
      left join lateral (
          select c.path
            from taskq.campaign c
           where c.campaign_id = l.campaign_id
             and taskq.token_covers(c.path)
          offset 0
      ) h on true
     where case when s.resource = 'gpus' then l.has -> 'devices' <> '{}' else l.has -> 'resources' ? s.resource end
     group by s.path, s.resource, coalesce(h.path, '')
)
select s.path, s.resource, count(*) as agents, count(distinct s.host) as hosts,
       (array_agg(distinct s.host))[1:5] as some_hosts,
       (select coalesce(jsonb_object_agg(h.holder, h.slots), '{}')
          from holder h
         where h.path = s.path and h.resource = s.resource) as holders
  from short s
 group by s.path, s.resource
 order by count(*) desc, s.path, s.resource
 limit %(limit)s
