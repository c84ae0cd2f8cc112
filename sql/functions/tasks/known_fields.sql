-- known_fields(campaign, fields, stretches, each): which fields some tasks from all parts of a campaign have.
--
-- fields: a JSON array of fields, each an array of names that begins with `payload` or `result`, as in
--     filter_path(). stretches: the number of equal parts of the range of its task ids; each: how many tasks or
--     attempts to read from the start of each part.
-- Result: a row for each field, in their order. looked: at how many payloads, or accepted results, and whole:
--     whether these are all; known: whether one of them has the field, with any value; names: what they have in its
--     place, the most frequent first, 50 at most; null if it is known. tasks: how many payloads were met.
-- Error TQ400: fields has more than 128 KiB, or more than 100 fields, or one of them is none.
--
-- Reads stretches * each payloads and as many attempts at most, so its cost does not grow with the campaign.
-- Index: spec_pkey, attempt_pkey. Plans: see tasks().
-- @roles reader
-- @standby yes
-- @gateway manager, within 10 s
-- @hint compare fewer fields
-- @plan generic by-key
create or replace function taskq.known_fields(
    p_campaign bigint,
    p_fields jsonb,
    p_stretches integer,
    p_each integer
)
returns table (tasks bigint, looked bigint, whole boolean, known boolean, names text[])
language plpgsql stable
as $$
declare
    v_first constant bigint := (
        select s.task_id
          from taskq.spec s
         where s.campaign_id = p_campaign
         order by s.campaign_id, s.task_id
         limit 1);
    v_end constant bigint := 1 + (
        select s.task_id
          from taskq.spec s
         where s.campaign_id = p_campaign
         order by s.campaign_id desc, s.task_id desc
         limit 1);
    v_paths jsonpath[];
    v_above jsonpath[];
begin
    if pg_column_size(p_fields) > 131072 or jsonb_typeof(p_fields) <> 'array' or jsonb_array_length(p_fields) > 100 then
        raise exception 'fields is an array of at most 100 fields and 128 KiB' using errcode = 'TQ400';
    end if;
    if exists (
        select
          from jsonb_array_elements(p_fields) as f (field)
         where jsonb_typeof(f.field) <> 'array'
            or f.field ->> 0 is null
            or f.field ->> 0 not in ('payload', 'result')
            or jsonb_array_length(f.field) not between 2 and 100
            or exists (select from jsonb_array_elements(f.field) as n (name) where jsonb_typeof(n.name) <> 'string')
    ) then
        raise exception 'a field is an array of names that begins with payload or result' using errcode = 'TQ400';
    end if;
    select array_agg(p.path::jsonpath order by p.place), array_agg(p.above::jsonpath order by p.place)
      into v_paths, v_above
      from (
          select f.place,
                 '$' || string_agg('.' || to_json(n.name)::text, '' order by n.place) as path,
                 '$' || coalesce(string_agg('.' || to_json(n.name)::text, '' order by n.place)
                                     filter (where n.place < jsonb_array_length(f.field)), '') as above
            from jsonb_array_elements(p_fields) with ordinality as f (field, place)
           cross join lateral jsonb_array_elements_text(f.field) with ordinality as n (name, place)
           group by f.place, f.field
      ) p;
    return query
        with part as materialized (
            select v_first + (v_end - v_first) * i / p_stretches as low,
                   v_first + (v_end - v_first) * (i + 1) / p_stretches as high
              from generate_series(0, p_stretches - 1) i
        ), met as materialized (
            select 'payload' as part, m.content, m.counts, m.met
              from part p
             cross join lateral (
                 select jsonb_build_object('payload', s.payload) as content, true as counts,
                        row_number() over () as met
                   from (select s.payload
                           from taskq.spec s
                          where s.campaign_id = p_campaign
                            and s.task_id >= p.low
                            and s.task_id < p.high
                          order by s.campaign_id, s.task_id
                          limit p_each) s
             ) m
             where exists (select from jsonb_array_elements(p_fields) f where f ->> 0 = 'payload')
                or m.met = 1
             union all
            select 'result', m.content, m.counts, m.met
              from part p
             cross join lateral (
                 select jsonb_build_object('result', a.result) as content, a.outcome = 'done' as counts,
                        row_number() over () as met
                   from (select a.result, a.outcome
                           from taskq.attempt a
                          where a.campaign_id = p_campaign
                            and a.task_id >= p.low
                            and a.task_id < p.high
                          order by a.campaign_id, a.task_id
                          limit p_each) a
             ) m
             where exists (select from jsonb_array_elements(p_fields) f where f ->> 0 = 'result')
        ), judged as materialized (
            select f.place,
                   f.field ->> 0 as part,
                   count(*) filter (where m.counts) as looked,
                   coalesce(max(m.met), 0) < p_each as whole,
                   coalesce(bool_or(m.counts and jsonb_path_exists(m.content, v_paths[f.place], '{}', true)), false)
                       as known
              from jsonb_array_elements(p_fields) with ordinality as f (field, place)
              left join met m on m.part = f.field ->> 0
             group by f.place, f.field
        )
        select (select count(*) from met m where m.part = 'payload'),
               j.looked, j.whole, j.known,
               case when not j.known then array(
                   select k.name
                     from met m
                    cross join lateral jsonb_path_query(m.content, v_above[j.place], '{}', true) as o (object)
                    cross join lateral jsonb_object_keys(
                        case jsonb_typeof(o.object) when 'object' then o.object else '{}' end) as k (name)
                    where m.part = j.part
                      and m.counts
                    group by k.name
                    order by count(*) desc, k.name
                    limit 50)
               end
          from judged j
         order by j.place;
end
$$;
