-- narrowed(path, paths): what of a campaign and all below it the campaigns `paths`, each with all
-- below it, allow: the path itself if it is one of them or below one; else the only one of them
-- that is below it; else null. A part of enrol(); not for clients.
create or replace function taskq.narrowed(p_path text, p_paths text[])
returns text
language sql immutable
as $$
    select case
               when bool_or(p_path = a.path or starts_with(p_path, rtrim(a.path, '/') || '/'))
               then p_path
               when count(distinct a.path) filter (
                        where starts_with(a.path, rtrim(p_path, '/') || '/')) = 1
               then min(a.path) filter (where starts_with(a.path, rtrim(p_path, '/') || '/'))
           end
      from unnest(p_paths) as a (path)
$$;
