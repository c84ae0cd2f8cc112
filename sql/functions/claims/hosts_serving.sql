-- hosts_serving(campaign, most): hosts on which agents serve a campaign: hashes of the names of some of
-- them, `most` at most. A part of pick_again(), which pins the settings; not for clients.
--
-- An agent serves a campaign if its session was opened for that campaign or one above it, and if the agent offers
-- what the campaign requires, sent a heartbeat within its lease, does not drain, and is not slowed, neither by itself
-- nor as suspicious. Time in which the server could not hear anybody does not count. Agents that do not name their
-- host are left out: they may be on any host. An agent whose host or site
-- is banned for the campaign does not serve it. An agent that has refused the campaign does not serve it while it is
-- sure to leave the campaign out: for ten seconds, twice as long after each further refusal, at most ten minutes, up
-- to a quarter less by chance; see note_refusals(). Then it tries again, and may succeed.
--
-- Goes from each host to the next: the cost grows with `most`, the depth of the campaign, and the open agents
-- that do not serve it. Index: session_host, refusal_pkey.
create or replace function taskq.hosts_serving(p_campaign bigint, p_most integer)
returns integer[]
language plpgsql stable
as $$
declare
    v_now constant timestamptz := clock_timestamp();
    v_since constant timestamptz := taskq.serving_since();
    v_hosts integer[] := '{}';
    v_requires text[];
    v_path text;
    v_lineage bigint[];
    v_scope bigint;
    v_host text;
begin
    select c.requires, c.lineage, c.path into v_requires, v_lineage, v_path
      from taskq.campaign c
     where c.campaign_id = p_campaign;
    foreach v_scope in array coalesce(v_lineage, '{}') loop
        v_host := '';
        while cardinality(v_hosts) < p_most loop
            select s.host into v_host
              from taskq.session s
             where s.campaign_id = v_scope
               and s.ended_at is null
               and s.host <> ''  -- so that session_host answers
               and s.host > v_host
               and greatest(s.heartbeat_at, v_since) + make_interval(secs => s.lease_s) > v_now
               and not s.drain
               and coalesce((s.said #> '{trouble, failures}')::integer, 0) = 0
               and s.suspect is null
               and (s.banned is null
                    or not exists (
                        select from jsonb_array_elements(s.banned) b
                         where taskq.at_or_below(v_path, b ->> 'path')))
               and (v_requires = '{}' or taskq.offered(v_requires, s.offers))
               and (select r.last_at
                           + interval '7.5 s' * least(60, 2.0 ^ (least(r.pauses, 9) - 1))
                           > v_now
                      from taskq.refusal r
                     where r.campaign_id = p_campaign
                       and r.session_id = s.session_id) is not true
             order by s.campaign_id, s.host
             limit 1;
            exit when not found;
            v_hosts := array_remove(v_hosts, hashtext(v_host)) || hashtext(v_host);
        end loop;
    end loop;
    return v_hosts;
end
$$;
