-- keep_front(holder, term_s, stocked, look): one round of the refiller, if the caller is the refiller or
-- becomes it.
--
-- holder: drawn by the calling process. term_s: seconds for which it is the refiller from now on, as for
--     keep(). stocked: JSON array of [campaign, entries, rank]: the number of entries in each list, and
--     the largest -priority in it.
-- look: whether to look for tasks of a higher priority, which under a held snapshot may take long.
-- acting: whether the caller is the refiller; if not, nothing is done. epoch: the current one. closed: the stocked
--     campaigns whose tasks may not be leased ahead (any more). overtaken: those with a waiting task of a higher
--     priority than one in the list.
-- Error TQ400: stocked is not of this form.
--
-- The entries in `stocked` count as claimable, see unfinished_campaigns(), as long as the refiller's term lasts.
--
-- Locks: the row of the refiller; a second caller does not wait. Rows are written only when they change by
-- much: they would have many versions under a held snapshot. Index: task_waiting, span_waiting, where it looks at
-- higher priorities only.
-- @roles upkeep
-- @plan generic by-key
create or replace function taskq.keep_front(
    p_holder uuid,
    p_term_s double precision,
    p_stocked jsonb,
    p_look boolean,
    out acting boolean,
    out epoch bigint,
    out closed bigint[],
    out overtaken bigint[]
)
language plpgsql
as $$
declare
    v_until timestamptz;
    v_now constant timestamptz := clock_timestamp();
begin
    select r.until into v_until
      from taskq.front_refiller r
     where r.only_one
       and (r.holder = p_holder or r.until < v_now
            or taskq.believed(r.until, v_now) is null)
       for no key update skip locked;
    acting := found;
    if not acting then
        return;
    end if;
    p_term_s := least(p_term_s, 3600);
    if v_until not between v_now + make_interval(secs => p_term_s / 2)
                       and v_now + interval '1 hour' then
        update taskq.front_refiller
           set holder = p_holder,
               until = v_now + make_interval(secs => p_term_s)
         where only_one;
    end if;

    select f.epoch into epoch from taskq.front f;

    begin
        delete from taskq.front_list l
         where l.campaign_id not in (
                   select (s ->> 0)::bigint from jsonb_array_elements(p_stocked) s);
        insert into taskq.front_list as l (campaign_id, entries, rank)
        select (s ->> 0)::bigint, (s ->> 1)::integer, (s ->> 2)::integer
          from jsonb_array_elements(p_stocked) s
            on conflict (campaign_id) do update
           set entries = excluded.entries,
               rank = excluded.rank
         where l.rank <> excluded.rank
            or (l.entries = 0) <> (excluded.entries = 0)
            or excluded.entries not between l.entries * 3 / 4 and l.entries * 4 / 3;
    exception
        when data_exception or not_null_violation or cardinality_violation then
            raise exception 'stocked must be an array of [campaign, entries, rank], each campaign once: %', sqlerrm using errcode = 'TQ400';
    end;

    select array_agg(s.campaign_id) filter (where not s.frontable),
           array_agg(s.campaign_id) filter (where s.frontable and s.overtaken)
      into closed, overtaken
      from (
          select l.campaign_id, taskq.is_frontable(l.campaign_id) as frontable,
                 p_look and (select true
                    from taskq.task t
                   where t.campaign_id = l.campaign_id
                     and t.status = 'waiting'
                     and t.avoids is null
                     and (-t.priority) < l.rank
                     and coalesce(t.session_id <> 0, true)
                   limit 1) is true
                 or p_look and (select true
                    from taskq.span n
                   where n.campaign_id = l.campaign_id
                     and n.status = 'waiting'
                     and (-n.priority) < l.rank
                   limit 1) is true as overtaken
            from taskq.front_list l
      ) s;
end
$$;
