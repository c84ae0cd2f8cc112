-- at_or_below(path, top): whether a path is `top` or lies below it. Inlined into the calling statement; to find
-- campaigns by an index see subtree().
-- @roles all
-- @standby yes
-- @gateway no
create or replace function taskq.at_or_below(p_path text, p_top text)
returns boolean
language sql immutable
as $$
    select p_path = p_top or starts_with(p_path, rtrim(p_top, '/') || '/')
$$;
