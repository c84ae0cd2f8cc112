-- token_covers(path): whether the manager's token that permit() accepted in this transaction is for a
-- campaign; without a token true.
-- @roles gateway reader
-- @standby no
-- @gateway no
create or replace function taskq.token_covers(p_path text)
returns boolean
language sql stable
as $$
    select coalesce(current_setting('taskq.token_paths', true), '') = ''
        or exists (
            select from unnest(nullif(current_setting('taskq.token_paths', true), '')::text[]) as own (path)
             where taskq.at_or_below(p_path, own.path))
$$;
