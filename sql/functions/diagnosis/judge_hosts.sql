-- judge_hosts(): finds the hosts on which a larger share of first attempts fails than on others in the same
-- campaigns, and marks their sessions: their agents learn it from their next heartbeats and make one attempt
-- at a time. Called by the keeper.
--
-- It compares what agents report in their heartbeats: how their latest first attempts ended, see beat(). How
-- long these took says nothing, and what fails everywhere is not a host's fault. Heartbeats do not say when these
-- attempts ended, so a host is suspicious only if attempts of the same time agree, see fails_beside().
--
-- Agents can lie about all of it: names of hosts, campaigns and numbers. So the sessions of each token are
-- judged alone, by their own reports: no lie slows agents of another token, which may serve other campaigns.
-- Sessions that no token has opened are judged together.
--
-- A host has x failures among n attempts, the others X among N in the same campaign. If it were like them, x
-- would be drawn from the beta-binomial distribution of n and Beta(X + 1/2, N - X + 1/2): what is to be
-- expected of a binomial share of which only X of N is known (J. G. Skellam, J. R. Stat. Soc. B 10, 1948, 257;
-- Jeffreys' prior). The host is suspicious if so many failures or more have a probability below 0.0001, of many hosts
-- below 0.005 by their number, as each of them may be accused by chance; and is
-- cleared when that is above 0.01 again, or there is nobody to compare it with. N counts as 30 at most: hosts get
-- neighbouring tasks, and differ a little in all things. So it takes three failures of three where nothing fails
-- elsewhere, and seven where the others have made only seven attempts. For several campaigns it adds means and
-- variances, and uses a beta-binomial with these. Suspicious hosts are not among the others.
--
-- Result: the hosts that were not suspicious before; null: none.
--
-- Locks: the rows of sessions that are marked or cleared, skipping locked ones: it is called
-- again soon. Index: session_open.
-- @plan generic by-scan
create or replace function taskq.judge_hosts()
returns text[]
language plpgsql
set enable_mergejoin = off
as $$
declare
    v_tokens bigint[];
    v_suspects text[];
    v_whys text[];
    v_found text[];
    v_host record;
    v_chance double precision;
begin
    for v_host in
        with tallied as materialized (
            select coalesce(s.token_id, 0) as token_id, s.host, s.suspect is not null as suspect, (o.one -> 'campaign')::bigint as campaign_id,
                   (o.one -> 'failed')::double precision as failed,
                   (o.one -> 'done')::double precision + (o.one -> 'failed')::double precision as tried
              from taskq.session s
              cross join lateral jsonb_array_elements(s.said -> 'tally') as o (one)
             where s.ended_at is null
               and s.host <> ''
        ), share as materialized (
            select t.token_id, t.host, t.campaign_id, sum(t.failed) as failed, sum(t.tried) as tried,
                   bool_or(t.suspect) as suspect
              from tallied t
             group by t.token_id, t.host, t.campaign_id
        ), everybody as (
            select s.token_id, s.campaign_id, sum(s.failed) as failed, sum(s.tried) as tried
              from share s
             where not s.suspect
             group by s.token_id, s.campaign_id
        ), compared as (
            select s.token_id, s.host, s.campaign_id, s.failed, s.tried, s.suspect, o.failed as others_failed,
                   o.tried as others_tried, b.a / (b.a + b.b) as share, b.a + b.b as weight
              from share s
              join everybody e on e.token_id = s.token_id
                              and e.campaign_id = s.campaign_id
              cross join lateral (
                  select e.failed - case when s.suspect then 0 else s.failed end as failed,
                         e.tried - case when s.suspect then 0 else s.tried end as tried
              ) o
              cross join lateral (
                  select o.failed * least(1, 30 / greatest(o.tried, 1)) + 0.5 as a,
                         (o.tried - o.failed) * least(1, 30 / greatest(o.tried, 1)) + 0.5 as b
              ) b
             where o.tried > 0
               and s.tried > 0
        )
        select c.token_id, c.host, bool_or(c.suspect) as suspect, sum(c.failed) as failed,
               sum(c.tried) as tried, sum(c.others_failed) as others_failed,
               sum(c.others_tried) as others_tried, sum(c.tried * c.share) as mean,
               sum(c.tried * c.share * (1 - c.share) * (c.weight + c.tried) / (c.weight + 1))
                   as variance,
               (array_agg(c.campaign_id order by c.failed - c.tried * c.share desc, c.campaign_id)
                    filter (where c.failed > c.tried * c.share))[:3] as campaigns,
               (select count(distinct (o.token_id, o.host)) from compared o) as hosts
          from compared c
         group by c.token_id, c.host
        having sum(c.failed) > sum(c.tried * c.share)
         order by c.host, c.token_id
    loop
        v_chance := case when v_host.suspect then 0.01 else least(0.0001, 0.005 / v_host.hosts) end;
        if taskq.chance_of_more(v_host.failed, v_host.tried, v_host.mean, v_host.variance) < v_chance
           and taskq.fails_beside(v_host.token_id, v_host.host, v_host.campaigns, v_chance)
        then
            v_tokens := v_tokens || v_host.token_id;
            v_suspects := v_suspects || v_host.host;
            v_whys := v_whys || format(
                '%s of %s first attempts failed here, %s of %s on other hosts',
                v_host.failed, v_host.tried, v_host.others_failed, v_host.others_tried);
            if not v_host.suspect and v_host.host <> all (coalesce(v_found, '{}')) then
                v_found := v_found || v_host.host;
            end if;
        end if;
    end loop;

    with changed as materialized (
        select s.session_id, u.why
          from taskq.session s
          left join unnest(v_tokens, v_suspects, v_whys) as u (token_id, host, why)
                 on u.token_id = coalesce(s.token_id, 0)
                and u.host = s.host
         where s.ended_at is null
           and (s.suspect is not null) <> (u.why is not null)
         order by s.session_id
           for no key update of s skip locked
    )
    update taskq.session s
       set suspect = c.why
      from changed c
     where s.session_id = c.session_id;
    return v_found;
end
$$;
