-- caller(): who acts in this transaction: the name of the token that it serves, see permit(), else the login. A part of
-- functions that keep who did something; not for clients.
create or replace function taskq.caller()
returns text
language sql stable
as $$
    select coalesce(taskq.token_setting('token_name'), session_user)
$$;
