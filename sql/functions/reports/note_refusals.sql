-- note_refusals(campaign, tasks): notes that the last attempts of some tasks were refused: nodes cannot
-- run them. A part of settle(), which has just recorded these attempts; not for clients.
--
-- Attempts that an agent made side by side count as one refusal. Refusals of tasks that were claimed before
-- the campaign was changed or opened again say nothing about it as it is, and are not noted. The same applies to
-- tasks leased ahead before and handed out since, for the minutes that the front may hold them. For the consequences
-- of refusals see pause_refused().
--
-- pauses: an agent's pauses grow even if others succeed. The outcomes of its own tasks are not known here: an
-- agent that has not refused for more than twice its longest possible pause was well meanwhile, or idle, and
-- begins again, see hosts_serving().
--
-- Locks: the rows of refusals, in the order of sessions. Index: task_pkey, attempt_pkey, refusal_pkey,
-- refused_pkey.
create or replace function taskq.note_refusals(p_campaign bigint, p_tasks bigint[])
returns void
language plpgsql
as $$
begin
    insert into taskq.refused (campaign_id) values (p_campaign) on conflict do nothing;
    insert into taskq.refusal as r (
           campaign_id, session_id, claimed_at, last_at, error_class, error)
    select p_campaign, a.session_id, max(a.claimed_at), max(a.ended_at),
           (array_agg(a.error_class order by a.task_id))[1],
           (array_agg(a.error order by a.task_id))[1]
      from unnest(p_tasks) as p (task_id)
     cross join lateral taskq.task_of(p_campaign, p.task_id) t
     cross join lateral taskq.attempt_of(p_campaign, p.task_id, t.attempt) a
     where a.claimed_at > coalesce(
               (select f.since from taskq.refused f where f.campaign_id = p_campaign), '-infinity')
     group by a.session_id
     order by a.session_id
        on conflict (campaign_id, session_id) do update
       set times = r.times + (excluded.claimed_at > r.last_at)::integer,
           pauses = case
               when excluded.claimed_at <= r.last_at then r.pauses
               when excluded.claimed_at > r.last_at + interval '1 min'
                        + interval '25 s' * least(60, 2.0 ^ (least(r.pauses, 9) - 1)) then 1
               else r.pauses + 1
           end,
           claimed_at = excluded.claimed_at,
           last_at = excluded.last_at,
           error_class = excluded.error_class,
           error = excluded.error;
end
$$;
