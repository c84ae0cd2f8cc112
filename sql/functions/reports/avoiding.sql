-- avoiding(avoids, session): the hosts that a task avoids, with that of a session added: hashes of the last sixteen
-- names, the latest last. A part of settle(), give_back() and hedge_task(); not for clients.
--
-- avoids: the value before; null: no host. Unchanged if there is no such session. Index: session_pkey.
create or replace function taskq.avoiding(p_avoids integer[], p_session bigint)
returns integer[]
language plpgsql stable
as $$
declare
    v_host constant integer := (
        select hashtext(s.host)
          from taskq.session s
         where s.session_id = p_session);
    v_avoids constant integer[] := array_remove(coalesce(p_avoids, '{}'), v_host) || v_host;
begin
    if v_host is null then
        return p_avoids;
    end if;
    return v_avoids[greatest(1, cardinality(v_avoids) - 15) :];
end
$$;
