-- is_input(path, digest): whether a campaign at or below a path has an input with this digest (SHA-256
-- in hexadecimal). Index: campaign_path_key.
create or replace function taskq.is_input(p_path text, p_digest text)
returns boolean
language plpgsql stable
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    return exists (
        select
          from taskq.subtree(p_path) c
         where jsonb_path_exists(
                   c.inputs, '$.*.digest ? (@ == $digest)',
                   jsonb_build_object('digest', p_digest)));
end
$$;
