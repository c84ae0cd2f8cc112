-- attempt_sample(path, most): a sample of at most `most` of the latest attempts at and below a path. A part
-- of latest_attempts() and failing_tasks(); not for clients.
--
-- Takes, from each campaign, the attempts of the tasks that were seeded last among those with an attempt:
-- claims go in that order. Takes the 50 campaigns in which most runs, and equal numbers from each; what small
-- ones leave goes to the larger ones. No index has attempts by session, so a host that does little has few in
-- the sample.
-- outcome: as in `attempt`, or refused.
-- run_s: seconds that the payload ran, as the agent measured it, else from claim to end; at least 1 ms.
-- cut: whether the campaign has more attempts.
-- Error TQ404: no such campaign.
--
-- Reads `most` attempts, however many there are; else it costs as much as counts(). Plans: see tasks().
-- Index: attempt_pkey, refused_pkey, and those of counts().
-- @plan generic by-key
create or replace function taskq.attempt_sample(p_path text, p_most integer)
returns table (
    campaign_id bigint,
    task_id bigint,
    session_id bigint,
    claimed_at timestamptz,
    ended_at timestamptz,
    error_class text,
    outcome text,
    run_s double precision,
    cut boolean
)
language plpgsql stable
as $$
declare
    v_campaigns constant integer := 50;
    v_chosen bigint[];
    v_left integer := p_most;
    v_each integer;
    v_read integer;
begin
    -- The smallest first: what it leaves, the next may take.
    v_chosen := array(
        select k.campaign_id
          from (
              select c.campaign_id, c.done + c.failures + c.losses as attempts, c.path
                from taskq.counts(p_path, null) c
               where c.done + c.failures + c.losses > 0
                  or exists (select from taskq.refused r where r.campaign_id = c.campaign_id offset 0)
               order by c.working desc, c.done + c.failures + c.losses desc, c.path
               limit v_campaigns
          ) k
         order by k.attempts, k.path);
    for i in 1 .. cardinality(v_chosen) loop
        v_each := v_left / (cardinality(v_chosen) - i + 1);
        return query
            select a.campaign_id, a.task_id, a.session_id, a.claimed_at, a.ended_at, a.error_class,
                   case when a.refused then 'refused' else a.outcome::text end,
                   greatest(
                       0.001,
                       case when jsonb_typeof(a.phases -> 'run_s') = 'number'
                            then (a.phases ->> 'run_s')::double precision
                            else extract(epoch from a.ended_at - a.claimed_at) end),
                   count(*) over () >= v_each
              from (
                  select a.campaign_id, a.task_id, a.session_id, a.claimed_at, a.ended_at,
                         a.error_class, a.refused, a.outcome, a.phases
                    from taskq.attempt a
                   where a.campaign_id = v_chosen[i]
                   order by a.campaign_id desc, a.task_id desc, a.attempt desc
                   limit v_each
              ) a;
        get diagnostics v_read = row_count;
        v_left := v_left - v_read;
    end loop;
end
$$;
