-- note_updates(updates): stores what attempts report while they run; agents send it with heartbeats, after
-- beat(), when they have something to report.
--
-- updates: JSON array of {"session", "campaign", "task", "lease", "fraction", "note", "written", "output"}.
--     fraction, note: how far the attempt is; both null: it does not say. output: the end of its output in
--     base64, of `written` bytes in all; null: it was not asked for.
-- Updates of attempts that the session does not hold are ignored. What is stored is bounded: a fraction from
-- 0 to 1, 120 characters without control characters, 8 KiB of output.
-- Error TQ400: the argument is not of this form; nothing is changed.
--
-- Locks: rows of progress, in the order of their key, which only the sessions that hold the leases write; rows of
-- followed, skipping those that askers have locked.
-- Index: progress_pkey, task_pkey, bundle_pkey, session_pkey, followed_pkey.
--
-- Progress that is stored already is not written again before half of its time is over.
-- @roles serving
-- @plan generic by-key
create or replace function taskq.note_updates(p_updates jsonb)
returns void
language plpgsql
as $$
declare
    v_now constant timestamptz := clock_timestamp();
    v_one record;
begin
    insert into taskq.progress as p (campaign_id, task_id, lease_id, fraction, note, until)
    select u.campaign_id, u.task_id, u.lease_id, u.fraction, u.note, v_now + u.span
      from (
          select distinct on (u.campaign_id, u.task_id, u.lease_id)
                 u.campaign_id, u.task_id, u.lease_id,
                 case when u.fraction is not null then least(greatest(u.fraction, 0), 1) end as fraction,
                 left(regexp_replace(
                     coalesce(u.note, ''), e'[\\u0001-\\u001f\\u007f-\\u009f]', ' ', 'g'), 120) as note,
                 make_interval(secs => greatest(300, (
                     select s.lease_s from taskq.session s where s.session_id = u.session_id)))
                     as span
            from (
                select u.session as session_id, u.campaign as campaign_id, u.task as task_id,
                       u.lease as lease_id, u.fraction, u.note
                  from jsonb_to_recordset(p_updates) as u (
                           session bigint, campaign bigint, task bigint, lease uuid,
                           fraction double precision, note text)
                 where num_nonnulls(u.fraction, u.note) > 0
            ) u
           where case
                     when (select count(*)
                             from taskq.task t
                            where t.campaign_id = u.campaign_id
                              and t.task_id = u.task_id
                              and t.lease_id = u.lease_id
                              and t.session_id = u.session_id
                              and t.status::text = 'working') = 1 then true
                     else (select true
                             from taskq.bundle b
                            where b.session_id = u.session_id
                              and b.lease_id = u.lease_id
                              -- In a form that no index answers, see beat().
                              and b.campaign_id is not distinct from u.campaign_id
                              and u.task_id = any (b.tasks)
                            limit 1)
                 end
           order by u.campaign_id, u.task_id, u.lease_id
          offset 0
      ) u
     where not exists (
         select
           from taskq.progress q
          where q.campaign_id = u.campaign_id
            and q.task_id = u.task_id
            and q.lease_id = u.lease_id
            and q.fraction is not distinct from u.fraction
            and q.note = u.note
            and q.until > v_now + u.span / 2)
        on conflict (campaign_id, task_id, lease_id) do update
       set fraction = excluded.fraction,
           note = excluded.note,
           until = excluded.until;

    -- The session and the lease of a row are those of the attempt that ran when its output was asked for.
    for v_one in
        select f.ctid as row_id, u.written, u.decoded as output
          from (
              select u.*, decode(u.output, 'base64') as decoded
                from jsonb_to_recordset(p_updates) as u (
                         session bigint, campaign bigint, task bigint, lease uuid, written bigint, output text)
               where u.output is not null
              offset 0
          ) u
          join taskq.followed f
            on f.campaign_id = u.campaign
           and f.task_id = u.task
           and f.session_id = u.session
           and f.lease_id = u.lease
         where f.asked_at > v_now - interval '30 s'
           for no key update of f skip locked
    loop
        update taskq.followed f
           set written = greatest(v_one.written, 0),
               output = substring(
                   v_one.output from greatest(length(v_one.output) - 8192, 0) + 1)
         where f.ctid = v_one.row_id;
    end loop;
exception
    when data_exception then
        raise exception 'updates are not of the form that note_updates() takes: %', sqlerrm using errcode = 'TQ400';
end
$$;
