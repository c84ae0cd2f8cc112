-- campaign_id(path): the id of a campaign. Error TQ404: no such campaign; the text has when the last one at the path was
-- removed. Everybody may see that, so it has nothing else. Index: campaign_path_key, stone_pkey.
create or replace function taskq.campaign_id(p_path text)
returns bigint
language plpgsql stable
as $$
declare
    v_id bigint;
    v_removed_at timestamptz;
begin
    select c.campaign_id into v_id from taskq.campaign c where c.path = p_path;
    if not found then
        select s.removed_at into v_removed_at
          from taskq.stone s
         where s.path = p_path
           and s.removed_at is not null
         order by s.path desc, s.begun_at desc
         limit 1;
        raise exception 'no campaign %', p_path || coalesce(
                to_char(v_removed_at at time zone 'UTC',
                        '"; it was removed at "YYYY-MM-DD"T"HH24:MI:SS"Z: `taskq ls --removed` shows more"'), '')
            using errcode = 'TQ404';
    end if;
    return v_id;
end
$$;
