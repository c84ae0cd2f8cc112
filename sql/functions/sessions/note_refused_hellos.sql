-- note_refused_hellos(hellos): notes agents that were refused a session, or that say why they do not ask for one, so
-- that people see why a host or site does not serve. A part of enrol_many(); not for clients.
--
-- hellos: JSON array of {"token_hash", "host", "site", "why", "own"}; own: whether the words are the agent's.
--
-- Only bearers of a site's token that exists, or has existed, leave a note: one for each token and host, written at
-- most every half minute, and at most 50 hosts of a token, 5,000 in all. So each refused hello costs one look at the
-- key, however many there are, and an agent that invents names of hosts hides only those of its own token. Notes stay
-- when the host is let in again, since readers compare them with its sessions; the keeper removes those older than a
-- day.
--
-- Locks: the notes, in the order of their keys, so two calls cannot deadlock. Index: token_hash_key,
-- refused_hello_pkey.
-- @plan by-key
create or replace function taskq.note_refused_hellos(p_hellos jsonb)
returns void
language plpgsql
as $$
declare
    v_most_of_token constant integer := 50;
    v_most constant integer := 5000;
    v_now constant timestamptz := clock_timestamp();
    v_hello record;
    v_last timestamptz;
begin
    for v_hello in
        select distinct on (t.token_id, left(h.host, 200))
               t.token_id, left(h.host, 200) as host, left(h.site, 200) as site,
               case when t.revoked_at is not null then format('the token %s was revoked', t.name)
                    when t.expires_at <= v_now then format('the token %s has expired', t.name)
                    else left(h.why, 500) end as why,
               coalesce(h.own and t.revoked_at is null and t.expires_at > v_now, false) as own
          from jsonb_to_recordset(p_hellos) as h (token_hash bytea, host text, site text, why text, own boolean)
          join taskq.token t on t.hash = h.token_hash
         where t.kind = 'site'
         order by t.token_id, left(h.host, 200)
    loop
        select r.last_at into v_last
          from taskq.refused_hello r
         where r.token_id = v_hello.token_id
           and r.host = v_hello.host;
        if found and v_last > v_now - interval '30 s' then
            continue;
        end if;
        if not found
           and ((select count(*) from taskq.refused_hello r where r.token_id = v_hello.token_id)
                >= v_most_of_token
                or (select count(*) from taskq.refused_hello) >= v_most)
        then
            continue;
        end if;
        insert into taskq.refused_hello as r (token_id, host, site, why, first_at, last_at, own)
        values (v_hello.token_id, v_hello.host, coalesce(v_hello.site, ''), v_hello.why, v_now, v_now, v_hello.own)
            on conflict (token_id, host) do update
           set site = excluded.site,
               why = excluded.why,
               last_at = v_now,
               own = excluded.own;
    end loop;
end
$$;
