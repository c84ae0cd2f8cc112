-- campaign_id(path): the id of a campaign. Error TQ404: no such campaign. Index: campaign_path_key.
create or replace function taskq.campaign_id(p_path text)
returns bigint
language plpgsql stable
as $$
declare
    v_id bigint;
begin
    select c.campaign_id into v_id from taskq.campaign c where c.path = p_path;
    if not found then
        raise exception 'no campaign %', p_path using errcode = 'TQ404';
    end if;
    return v_id;
end
$$;
