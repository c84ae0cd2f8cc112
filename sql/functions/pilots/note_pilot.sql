-- note_pilot(pilot, holder, jobs, failures, trouble, retry_s, pause_why): records what the loop has seen.
--
-- jobs: JSON array of objects with `number` and `status`, and, where they are known, `native_id`, `place`,
--     `outcome`, `why`, `exit_code`, `tail`, `cancelled` (the loop has asked for its end), `missing` (the batch
--     system's answer did not have it), `reason` (why the batch system ended it: memory, node, time, preempted
--     or cancelled) and `taken` (it was ended in favour of others, such as by preemption). Fields left out stay. The
--     instants of a job's changes are taken here, when a change is first reported; heard_at comes from its agent's
--     session. A job that was given up without evidence goes on if it is seen again. If somebody saw a job's end, its
--     agent's session ends too: expire() hands its tasks out at once, as lost, or as released if the job was taken,
--     and the attempts get the class of the reason.
-- failures: how many in a row; null: as before. trouble: the batch system's words; null: as before; empty:
--     none. retry_s: there was a failure, so submit nothing for this many seconds. pause_why: pause the
--     pilot, for this reason.
-- Result: whether the pilot is gone: it was being removed, and its last job has ended.
-- Error TQ409: another loop acts for the pilot. Idempotent.
--
-- Locks: the pilot's row, then those of the jobs by number. Index: pilot_job_pkey, session_pilot.
-- @roles manager pilots
-- @gateway manager
-- @repeat safe
-- @act no: the loop of a pilot says what it saw
create or replace function taskq.note_pilot(
    p_pilot bigint,
    p_holder uuid,
    p_jobs jsonb,
    p_failures integer default null,
    p_trouble text default null,
    p_retry_s double precision default null,
    p_pause_why text default null
)
returns boolean
language plpgsql
as $$
declare
    v_status constant text := taskq.lock_held_pilot(p_pilot, p_holder);
    v_now constant timestamptz := clock_timestamp();
    v_job record;
    v_name text;
begin
    for v_job in
        select n.*
          from jsonb_to_recordset(p_jobs) as n (
                   number integer, status text, native_id text, place text, outcome text, why text,
                   exit_code integer, tail text, cancelled boolean, missing boolean, reason text, taken boolean)
         order by n.number
    loop
        update taskq.pilot_job j
           set status = v_job.status,
               native_id = coalesce(left(v_job.native_id, 200), j.native_id),
               place = coalesce(left(v_job.place, 200), j.place),
               submitted_at = coalesce(
                   j.submitted_at, case when v_job.status in ('queued', 'running') then v_now end),
               started_at = coalesce(j.started_at, case when v_job.status = 'running' then v_now end),
               heard_at = coalesce(
                   j.heard_at,
                   (select min(s.opened_at)
                      from taskq.session s
                     where s.agent = j.name
                       and s.agent like 'taskq-%')),
               cancelled_at = coalesce(j.cancelled_at, case when v_job.cancelled then v_now end),
               missing_at = case when v_job.missing then coalesce(j.missing_at, v_now) end,
               missing_polls = case when v_job.missing then j.missing_polls + 1 else 0 end,
               ended_at = case when v_job.status = 'ended' then coalesce(j.ended_at, v_now) end,
               outcome = case when v_job.status = 'ended' then v_job.outcome end,
               why = case when v_job.status = 'ended'
                          then coalesce(left(v_job.why, 2000), j.why) else left(v_job.why, 2000) end,
               exit_code = case when v_job.status = 'ended'
                                then coalesce(v_job.exit_code, j.exit_code) end,
               tail = case when v_job.status = 'ended' then coalesce(left(v_job.tail, 4000), j.tail) end
         where j.pilot_id = p_pilot
           and j.number = v_job.number
        returning j.name into v_name;
        update taskq.session s
           set ended_at = v_now,
               expired = v_job.taken is not true,
               end_class = case v_job.reason when 'memory' then 'job-out-of-memory'
                                             when 'node' then 'job-node-failed'
                                             when 'time' then 'job-out-of-time'
                                             when 'preempted' then 'job-preempted'
                                             when 'cancelled' then 'job-cancelled' end,
               left_why = left('its batch job has ended' || coalesce(': ' || v_job.why, ''), 2000)
         where v_job.outcome in ('served', 'died', 'cancelled')
           and s.agent = v_name
           and s.agent like 'taskq-%'
           and s.ended_at is null;
    end loop;
    if v_status = 'removed'
       and not exists (
           select from taskq.pilot_job j where j.pilot_id = p_pilot and j.status <> 'ended')
    then
        delete from taskq.pilot p where p.pilot_id = p_pilot;
        return true;
    end if;
    update taskq.pilot p
       set failures = coalesce(p_failures, p.failures),
           failed_at = case when p_retry_s is null then p.failed_at else v_now end,
           trouble = case when p_trouble is null then p.trouble
                          else nullif(left(p_trouble, 2000), '') end,
           retry_at = case when p_failures = 0 then null
                           else coalesce(v_now + make_interval(secs => p_retry_s), p.retry_at) end,
           status = case when p_pause_why is not null and p.status = 'active'
                         then 'paused' else p.status end,
           paused_why = case when p_pause_why is not null and p.status = 'active'
                             then left(p_pause_why, 3000) else p.paused_why end
     where p.pilot_id = p_pilot;
    return false;
end
$$;
