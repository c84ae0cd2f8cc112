-- failing_sizes(path, most): how large tasks are that failed lately, and those that did not, by campaign at and below a
-- path: their payloads in bytes, those above 8 kB as they are stored, and of others the first eight numbers by name; see
-- attempt_sample(), of which it takes `most` attempts.
--
-- field: the name of the number, or empty for the bytes. The lists have an entry for each task that has it, in the
--     order of seeding. hosts: of the attempt; classes: of the error, null if it succeeded; of several attempts at a
--     task a failed one.
-- Error TQ404: no such campaign.
--
-- Reads `most` attempts with their payloads. Plans: see tasks(). Index: those of attempt_sample(), session_pkey, spec_pkey,
-- campaign_pkey.
-- @roles reader
-- @standby yes
-- @gateway manager
-- @plan generic by-key
create or replace function taskq.failing_sizes(p_path text, p_most integer)
returns table (
    campaign text,
    field text,
    hosts text[],
    classes text[],
    sizes double precision[]
)
language plpgsql stable
as $$
begin
    return query
        with chosen as materialized (
            select distinct on (s.campaign_id, s.task_id) s.campaign_id, s.task_id, s.session_id,
                   case when s.outcome <> 'done' then coalesce(s.error_class, '') end as error_class
              from taskq.attempt_sample(p_path, p_most) s
             where s.outcome in ('done', 'failed', 'lost')
               and not s.outdated
             order by s.campaign_id, s.task_id, s.outcome = 'done', s.ended_at desc
        )
        select c.path, f.field, array_agg(n.host order by h.task_id), array_agg(h.error_class order by h.task_id),
               array_agg(f.size order by h.task_id)
          from chosen h
         cross join lateral taskq.session_of(h.session_id) n
         cross join lateral taskq.spec_of(h.campaign_id, h.task_id) p
         cross join lateral (
             select '' as field,
                    case when pg_column_size(p.payload) <= 8192 then length(p.payload::text)
                         else pg_column_size(p.payload) end::double precision as size
              union all
             (select k.key, (k.value #>> '{}')::double precision
                from jsonb_each(case when pg_column_size(p.payload) <= 8192 then p.payload end) k
               where case when jsonb_typeof(k.value) = 'number'
                          then abs((k.value #>> '{}')::numeric) between 1e-100 and 1e100
                               or (k.value #>> '{}')::numeric = 0 end
                 and length(k.key) <= 100
               order by k.key
               limit 8)
         ) f
         cross join lateral taskq.campaign_of(h.campaign_id) c
         group by c.path, f.field
         order by c.path, f.field;
end
$$;
