-- place_runs(path, kind, name, most): when the latest successful attempts on a host or at a site began to run, and for
-- how long, by campaign at and below a path; see attempt_sample(), of which it takes `most` attempts.
--
-- kind: host or site. began_at: ascending; run_s: of each.
-- Error TQ404: no such campaign.
--
-- Reads `most` attempts at most, wherever they ran. Plans: see tasks(). Index: those of attempt_sample(), session_pkey,
-- campaign_pkey.
-- @roles reader
-- @standby yes
-- @gateway manager
-- @plan generic by-key
create or replace function taskq.place_runs(p_path text, p_kind text, p_name text, p_most integer)
returns table (
    campaign text,
    began_at timestamptz[],
    run_s double precision[]
)
language plpgsql stable
as $$
begin
    return query
        select c.path, array_agg(r.at order by r.at, r.task_id), array_agg(r.run_s order by r.at, r.task_id)
          from (
              select s.campaign_id, s.task_id, s.ended_at - make_interval(secs => s.run_s) as at, s.run_s
                from taskq.attempt_sample(p_path, p_most) s
               cross join lateral taskq.session_of(s.session_id) n
               where s.outcome = 'done'
                 and case p_kind when 'host' then n.host = p_name when 'site' then n.site = p_name end
          ) r
         cross join lateral taskq.campaign_of(r.campaign_id) c
         group by c.path
         order by c.path;
end
$$;
