-- of_token(name): what permit() has set of the token that this transaction serves, such as its token_id; null:
-- there is none. Whoever may not ask on behalf of tokens may have set it himself, and is not believed. A part
-- of what depends on who asks; not for clients.
create or replace function taskq.of_token(p_name text)
returns text
language sql stable
as $$
    select case when has_function_privilege(
                    session_user,
                    'taskq.permit(bytea, text, text[], bigint[], boolean, double precision)',
                    'execute')
                then nullif(current_setting('taskq.' || p_name, true), '') end;
$$;
