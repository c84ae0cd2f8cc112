-- is_input(path, digest): whether a campaign at or below a path has an input with this digest (SHA-256
-- in hexadecimal), or a task of it has such an argument or checkpoint. Index: campaign_path_key,
-- argument_digest, checkpoint_digest.
-- @roles gateway
create or replace function taskq.is_input(p_path text, p_digest text)
returns boolean
language plpgsql stable
as $$
begin
    return exists (
        select
          from taskq.subtree(p_path) c
         where jsonb_path_exists(
                   c.inputs, '$.*.digest ? (@ == $digest)',
                   jsonb_build_object('digest', p_digest)))
        or exists (
            select
              from taskq.checkpoint k
              join taskq.campaign c
                on c.campaign_id = k.campaign_id
             where k.digest = p_digest
               and taskq.at_or_below(c.path, p_path))
        or exists (
            select
              from taskq.argument a
              join taskq.campaign c
                on c.campaign_id = a.campaign_id
             where a.digest = p_digest
               and taskq.at_or_below(c.path, p_path));
end
$$;
