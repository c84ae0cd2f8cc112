-- token_setting(name): a setting of permit() about the token that this transaction serves, such as its token_id;
-- null: there is none. Logins that may not act for tokens could have made the setting themselves, so it does
-- not count for them. A part of functions that depend on who calls; not for clients.
create or replace function taskq.token_setting(p_name text)
returns text
language sql stable
as $$
    select case when has_function_privilege(
                    session_user,
                    'taskq.permit(bytea, text, text[], bigint[], boolean, double precision)',
                    'execute')
                then nullif(current_setting('taskq.' || p_name, true), '') end;
$$;
