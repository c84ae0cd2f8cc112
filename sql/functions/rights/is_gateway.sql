-- is_gateway(): whether the login is a gateway's, or the owner's. Gateways check the limits of JSON on raw
-- bytes before they send it (taskq/gateway/messages.py); a second check would cost a tenth of an exchange of
-- many. A part of exchange() and settle_many(); it is small enough to be inlined.
create or replace function taskq.is_gateway()
returns boolean
language sql stable
as $$
    select has_function_privilege(
               session_user, 'taskq.enrol_many(jsonb, double precision)'::regprocedure, 'execute')
$$;
