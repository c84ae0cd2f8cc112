-- remove_unused_sessions(limit, age_s, dry_run): removes sessions that ended more than `age_s` seconds ago and that
-- no attempt, task or refusal refers to: of agents that came and went without work. None while a campaign is being
-- restored: its sessions come before its attempts.
--
-- Result: how many were removed; call it until that is less than the limit. With dry_run it removes nothing, and
-- returns how many it would, up to the limit (null: all).
--
-- Reads all attempts, once in a call, as remove_unused_blobs() does.
--
-- Locks: the rows of the sessions, skipping locked ones. Index: session_ended, session_pkey.
-- @roles operator
-- @gateway no
-- @act no: it removes what nothing refers to
create or replace function taskq.remove_unused_sessions(
    p_limit integer,
    p_age_s double precision,
    p_dry_run boolean default false)
returns integer
language plpgsql
as $$
declare
    v_sessions bigint[];
begin
    with used as materialized (
        select a.session_id from taskq.attempt a
         union
        select t.session_id from taskq.task t
         union
        select b.session_id from taskq.bundle b
         union
        select r.session_id from taskq.refusal r
    ), pick as materialized (
        select s.session_id
          from taskq.session s
         where s.ended_at < clock_timestamp() - make_interval(secs => p_age_s)
           and not exists (select from taskq.archive g where g.restoring is not null)
           and not exists (select from used u where u.session_id = s.session_id)
         order by s.session_id
         limit p_limit
           for update of s skip locked
    )
    select array(select p.session_id from pick p) into v_sessions;
    if p_dry_run then
        return cardinality(v_sessions);
    end if;
    delete from taskq.session s where s.session_id = any (v_sessions);
    return cardinality(v_sessions);
end
$$;
