-- move_spans(campaign, old, new, after, limit): cancels whole spans, or makes the tasks of cancelled ones wait
-- again. A part of cancel() and retry(), which count what moves; not for clients.
--
-- old, new: the status that the spans have, and the one that they get. after: an id; looks at spans that begin
--     above it. limit: of spans.
-- moved: how many tasks are in the spans. upto: the last id of the last span, if there may be others above it;
--     null: there are none.
--
-- A million tasks are some 2,000 spans: a row of each, and one for the old, is all that is written.
--
-- Locks: those of unspan(), whose splits it neither sees nor disturbs. Index: span_pkey, spec_pkey.
create or replace function taskq.move_spans(
    p_campaign bigint,
    p_old taskq.task_status,
    p_new taskq.task_status,
    p_after bigint,
    p_limit integer,
    out moved integer,
    out upto bigint
)
language plpgsql
as $$
declare
    v_rows tid[];
begin
    perform pg_advisory_xact_lock(hashtext('taskq.unspan'), hashint8(p_campaign));
    select array_agg(p.row_id), max(p.last_id)
      into v_rows, upto
      from (
          select s.ctid as row_id, s.last_id
            from taskq.span s
           where s.campaign_id = p_campaign
             and s.first_id > p_after
             and s.status::text = p_old::text
           order by s.campaign_id, s.first_id
           limit p_limit
             for no key update
      ) p;
    if cardinality(v_rows) < p_limit then
        upto := null;
    end if;
    -- A claim leaves a span that it has emptied to the next claim, which removes it; but nobody claims cancelled
    -- ones.
    delete from taskq.span s
     where s.ctid = any (v_rows)  -- see settle()
       and s.next_id > s.last_id;
    with changed as (
        update taskq.span s
           set status = p_new
         where s.ctid = any (v_rows)
     returning s.next_id, s.last_id
    )
    select coalesce(sum(n.tasks), 0)
      into moved
      from changed c
     cross join lateral (
         select count(*) as tasks
           from (
               select
                 from taskq.spec s
                where s.campaign_id = p_campaign
                  and s.task_id >= c.next_id
                  and s.task_id <= c.last_id
                order by s.campaign_id, s.task_id
           ) s
     ) n;
end
$$;
