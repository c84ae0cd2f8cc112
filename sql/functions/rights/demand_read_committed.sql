-- demand_read_committed(): refuses a transaction whose statements do not see what has been committed since it began.
-- A part of verbs that wait for a lock and then read what its holder has done; not for clients.
--
-- taskq's own connections set their isolation, see begin_session.sql; this check is for other clients,
-- and for those behind a pooler. Error TQ400.
create or replace function taskq.demand_read_committed()
returns void
language plpgsql stable
as $$
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'this transaction is %, but the queue needs read committed; begin it so, or: alter role % '
                        'set default_transaction_isolation = ''read committed''',
                current_setting('transaction_isolation'), quote_ident(session_user)
            using errcode = 'TQ400';
    end if;
end
$$;
