-- settle_many(campaigns, reports): settles reports on attempts of several campaigns, in one transaction.
--
-- campaigns: one for each report, in their order. reports, acks: see exchange().
-- Error TQ400: not one campaign for each report, or see exchange().
--
-- Only campaigns with a report that is not `unknown` cost more than a look-up by key for each report, so
-- invented campaigns and those of others cost next to nothing. Campaigns are settled one after another, in
-- the order of their ids, so that two calls cannot deadlock.
--
-- Locks: those of settle(). Index: task_pkey, attempt_pkey, session_pkey; the settings are those of
-- exchange(), which says why.
-- @roles serving
-- @plan generic by-key
create or replace function taskq.settle_many(p_campaigns bigint[], p_reports text, out acks text[])
language plpgsql
as $$
declare
    v_reports constant jsonb :=
        case when taskq.is_gateway() then p_reports::jsonb else taskq.checked_reports(p_reports) end;
    v_one record;
    v_settled text[];
begin
    if (cardinality(p_campaigns) = jsonb_array_length(v_reports)
        and array_position(p_campaigns, null) is null) is not true
    then
        raise exception 'each report needs its campaign' using errcode = 'TQ400';
    end if;
    acks := array_fill('unknown'::text, array[cardinality(p_campaigns)]);
    for v_one in
        select r.campaign_id, jsonb_agg(r.report order by r.ord) as reports,
               array_agg(r.ord order by r.ord) as ords
          from (
              -- Single values, which are looked up by key, as where settle() finds out who may report.
              select s.campaign_id, s.report, s.ord,
                     -- A direct client may report on all tasks, even on those that nobody has had yet.
                     (select true
                        from taskq.spec k
                       where k.campaign_id = s.campaign_id
                         and k.task_id >= s.task_id
                         and k.task_id <= s.task_id
                       order by k.campaign_id, k.task_id
                       limit 1) is true
                     and taskq.may_report(
                             s.session_id, taskq.session_of_lease(s.campaign_id, s.task_id, s.lease_id),
                             s.campaign_id) as known
                from (
                    select p_campaigns[e.ord] as campaign_id, e.report, e.ord::integer as ord,
                           (e.report ->> 'task')::bigint as task_id,
                           (e.report ->> 'lease')::uuid as lease_id,
                           (e.report ->> 'session')::bigint as session_id
                      from jsonb_array_elements(v_reports) with ordinality as e (report, ord)
                    offset 0
                ) s
              offset 0
          ) r
         group by r.campaign_id
        having bool_or(r.known)
         order by r.campaign_id
    loop
        select e.acks into v_settled
          from taskq.exchange(v_one.campaign_id, v_one.reports::text, null, null, null) e;
        for i in 1 .. cardinality(v_settled) loop
            acks[v_one.ords[i]] := v_settled[i];
        end loop;
    end loop;
end
$$;
