-- enrol_many(hellos, lease_s): opens sessions for agents that arrive together: enrol() for each, with one
-- commit. A refusal does not affect the others.
--
-- hellos: JSON array of {"place", "token_hash", "session_hash", "address", "path", "key", "agent",
--     "host", "site", "pid", "slots", "release", "offers"}; place: any number, by which the caller knows
--     the hello; hashes as the text of a bytea; for the others, and for lease_s, see enrol().
-- Result: a row for each, in no order: place; session_id, path and offers of its session; or refused,
--     the code of the error that enrol() raises, and reason, its text.
--
-- Each is a sub-transaction that writes. PostgreSQL keeps 64 of them in memory for the snapshots of others;
-- more make those slower, so pass at most 64 hellos.
--
-- Locks: as enrol(). So that two calls cannot deadlock, the rows of tokens with max_uses come first,
-- in their order, then the sessions in the order of their keys. Index: as enrol(), and session_pkey.
-- @roles gateway
create or replace function taskq.enrol_many(p_hellos jsonb, p_lease_s double precision)
returns table (
    place integer,
    session_id bigint,
    path text,
    offers text[],
    refused text,
    reason text
)
language plpgsql
as $$
declare
    v_hello record;
begin
    perform
       from taskq.token t
      where t.hash = any (array(
                select (h ->> 'token_hash')::bytea from jsonb_array_elements(p_hellos) h))
        and t.max_uses is not null
      order by t.token_id
        for no key update;

    for v_hello in
        select h.*
          from jsonb_to_recordset(p_hellos) as h (
                   place integer, token_hash bytea, session_hash bytea, address inet, path text,
                   key uuid, agent text, host text, site text, pid integer, slots integer,
                   release text, offers text[])
         order by h.key
    loop
        place := v_hello.place;
        session_id := null;
        path := null;
        offers := null;
        refused := null;
        reason := null;
        begin
            select e.session, e.path into session_id, path
              from taskq.enrol(v_hello.token_hash, v_hello.session_hash, v_hello.address,
                               v_hello.path, v_hello.key, p_lease_s, v_hello.agent, v_hello.host,
                               v_hello.site, v_hello.pid, v_hello.slots, v_hello.release,
                               v_hello.offers) e;
            select s.offers into offers
              from taskq.session s
             where s.session_id = enrol_many.session_id;
        exception
            when sqlstate 'TQ400' or sqlstate 'TQ401' or sqlstate 'TQ403' or sqlstate 'TQ404'
                 or sqlstate 'TQ410' then
                refused := sqlstate;
                reason := sqlerrm;
        end;
        return next;
    end loop;
end
$$;
