-- enrol_many(hellos, lease_s): opens sessions for agents that arrive together: enrol() for each, with one
-- commit. A refusal does not affect the others; it is noted, see note_refused_hellos().
--
-- hellos: JSON array of {"place", "token_hash", "session_hash", "address", "path", "key", "agent",
--     "host", "site", "pid", "slots", "release", "offers", "unfit"}; place: any number, by which the caller knows
--     the hello; hashes as the text of a bytea; unfit: if not empty, why the agent will not work there: it is
--     refused with that, which is noted as its own words; for the others, and for lease_s, see enrol().
-- Result: a row for each, in no order: place; session_id, path and offers of its session, the token_id of
--     its site, and banned, see session_bans(); or refused, the code of the error that enrol() raises, and reason, its text.
--
-- One insert opens the usual sessions: new ones, of tokens without networks and max_uses, for a campaign at
-- or below one of the token's, of hosts and sites that are not banned. enrol() judges the rest. Each of these is a
-- sub-transaction that writes. PostgreSQL keeps 64 of them in memory for the snapshots of others; more make
-- those slower, so pass at most 64 hellos.
--
-- Locks: as enrol(), but the tokens first, in their order, and once: otherwise each sub-transaction would add itself
-- to those that have locked the row, and the last would cost most. So that two calls cannot deadlock, tokens with
-- max_uses, which are changed, come next; then the sessions in the order of their keys, first the usual ones; then
-- the notes of refusals. Index: as enrol(), and session_pkey.
-- @roles gateway
create or replace function taskq.enrol_many(p_hellos jsonb, p_lease_s double precision)
returns table (
    place integer,
    session_id bigint,
    path text,
    offers text[],
    token_id bigint,
    refused text,
    reason text,
    banned jsonb
)
language plpgsql
as $$
declare
    v_tokens constant bytea[] := array(
        select distinct (h ->> 'token_hash')::bytea from jsonb_array_elements(p_hellos) h);
    v_now timestamptz;
    v_served integer[] := '{}';
    v_hello record;
    v_refused jsonb;
begin
    perform
       from taskq.token t
      where t.hash = any (v_tokens)
      order by t.token_id
        for key share;
    perform
       from taskq.token t
      where t.hash = any (v_tokens)
        and t.max_uses is not null
      order by t.token_id
        for no key update;
    v_now := clock_timestamp();

    begin
        perform taskq.checked_tags('offers', o.offers)
           from (select distinct h.offers
                   from jsonb_to_recordset(p_hellos) as h (offers text[])) o;
        for place, session_id, path, offers, token_id in
            with hello as materialized (
                select distinct on (h.key) h.*
                  from jsonb_to_recordset(p_hellos) as h (
                           place integer, token_hash bytea, session_hash bytea, address inet,
                           path text, key uuid, agent text, host text, site text, pid integer,
                           slots integer, release text, offers text[], unfit text)
            ), usual as materialized (
                select h.*, t.token_id, c.campaign_id,
                       coalesce(t.at_site, nullif(h.site, ''), t.name) as at_site
                  from hello h
                 cross join lateral (
                       select t.token_id, t.at_site, t.name
                         from taskq.token t
                        where t.hash = h.token_hash
                          and t.kind = 'site'
                          and t.revoked_at is null
                          and t.expires_at > v_now
                          and t.networks = '{}'
                          and t.max_uses is null
                          and exists (
                              select from unnest(t.paths) as a (path)
                               where taskq.at_or_below(h.path, a.path))
                       offset 0) t
                 cross join lateral (
                       select c.campaign_id
                         from taskq.campaign c
                        where c.path = h.path
                       offset 0) c
                 where coalesce(h.unfit, '') = ''
            ), opened as (
                insert into taskq.session as s (
                       key, campaign_id, opened_at, heartbeat_at, lease_s, slots, pid, agent, host,
                       site, release, offers, token_id, token_hash, address)
                select u.key, u.campaign_id, v_now, v_now, p_lease_s, u.slots, u.pid,
                       left(u.agent, 200), left(u.host, 200), left(u.at_site, 200),
                       left(u.release, 50), u.offers, u.token_id, u.session_hash, u.address
                  from usual u
                 where not exists (
                       select from taskq.ban b
                        where b.kind = 'host'
                          and b.name = left(u.host, 200)
                          and (b.until > v_now) is not false)
                   and not exists (
                       select from taskq.ban b
                        where b.kind = 'site'
                          and b.name = left(u.at_site, 200)
                          and (b.until > v_now) is not false)
                 order by u.key
                on conflict do nothing
                returning s.session_id, s.key
            )
            select u.place, o.session_id, u.path, u.offers, u.token_id
              from opened o
              join usual u on u.key = o.key
        loop
            v_served := v_served || place;
            return next;
        end loop;
    exception
        when sqlstate 'TQ400' then  -- a tag is not well formed
            null;
    end;

    for v_hello in
        select h.*
          from jsonb_to_recordset(p_hellos) as h (
                   place integer, token_hash bytea, session_hash bytea, address inet, path text,
                   key uuid, agent text, host text, site text, pid integer, slots integer,
                   release text, offers text[], unfit text)
         where h.place <> all (v_served)
         order by h.key
    loop
        place := v_hello.place;
        session_id := null;
        path := null;
        offers := null;
        token_id := null;
        refused := null;
        reason := null;
        banned := null;
        begin
            if v_hello.unfit <> ''
               and exists (
                   select from taskq.token t
                    where t.hash = v_hello.token_hash
                      and t.kind = 'site'
                      and t.revoked_at is null
                      and t.expires_at > v_now) then
                raise exception '%', v_hello.unfit using errcode = 'TQ403';
            end if;
            select e.session, e.path into session_id, path
              from taskq.enrol(v_hello.token_hash, v_hello.session_hash, v_hello.address,
                               v_hello.path, v_hello.key, p_lease_s, v_hello.agent, v_hello.host,
                               v_hello.site, v_hello.pid, v_hello.slots, v_hello.release,
                               v_hello.offers) e;
            select s.offers, s.token_id, s.banned into offers, token_id, banned
              from taskq.session s
             where s.session_id = enrol_many.session_id;
        exception
            when sqlstate 'TQ400' or sqlstate 'TQ401' or sqlstate 'TQ403' or sqlstate 'TQ404'
                 or sqlstate 'TQ410' then
                refused := sqlstate;
                reason := sqlerrm;
                v_refused := coalesce(v_refused, '[]') || jsonb_build_object(
                    'token_hash', v_hello.token_hash, 'host', v_hello.host, 'site', v_hello.site,
                    'why', reason, 'own', v_hello.unfit <> '');
        end;
        return next;
    end loop;
    if v_refused is not null then
        perform taskq.note_refused_hellos(v_refused);
    end if;
end
$$;
