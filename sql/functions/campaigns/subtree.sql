-- subtree(path): the campaign at a path and all below it. Index: campaign_path_key.
--
-- Paths are sorted in the "C" collation, where '0' follows '/': all that is below /a lies between
-- '/a/' and '/a0', with /a itself and neighbours such as '/a-b' before that.
--
-- It is small enough to be inlined into the calling statement, together with that statement's
-- conditions; so it has neither settings nor rights of its own.
create or replace function taskq.subtree(p_path text)
returns setof taskq.campaign
language sql stable
as $$
    select c.* from taskq.campaign c where c.path = p_path
    union all
    select c.*
      from taskq.campaign c
     where c.path > rtrim(p_path, '/') || '/'
       and c.path < rtrim(p_path, '/') || '0'
$$;
