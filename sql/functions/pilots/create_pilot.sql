-- create_pilot(name, path, driver, settings, replace): stores a pilot.
--
-- name: letters, digits and hyphens in lower case, 40 at most. path: the campaign that its agents serve, with
--     all below it. driver, settings: how its jobs are submitted; a loop (`taskq pilot run`) checks them and
--     submits, with the rights of the user who runs it.
-- replace: change the pilot of this name if there is one; its jobs go on as they were submitted.
-- Result: whether it is new. Error TQ404: no such campaign. Error TQ409: there is a pilot of this name; or it
--     is being removed.
-- @roles operator
-- @gateway no
-- @act pilot
create or replace function taskq.create_pilot(
    p_name text,
    p_path text,
    p_driver text,
    p_settings jsonb,
    p_replace boolean default false
)
returns boolean
language plpgsql
as $$
declare
    v_status text;
begin
    perform taskq.campaign_id(p_path);
    insert into taskq.pilot (name, key, path, driver, settings)
    values (p_name, left(replace(gen_random_uuid()::text, '-', ''), 8), p_path, p_driver, p_settings)
    on conflict (name) do nothing;
    if found then
        perform taskq.note_act(p_path, 'pilot', array[p_name, p_driver, 'created']);
        return true;
    end if;
    select p.status into v_status from taskq.pilot p where p.name = p_name for update;
    if v_status = 'removed' then
        raise exception 'the pilot % is being removed: its last jobs have not ended', p_name
            using errcode = 'TQ409';
    elsif not p_replace then
        raise exception 'there is a pilot %; --replace changes it', p_name using errcode = 'TQ409';
    end if;
    update taskq.pilot p
       set path = p_path, driver = p_driver, settings = p_settings
     where p.name = p_name;
    perform taskq.note_act(p_path, 'pilot', array[p_name, p_driver, 'changed']);
    return false;
exception
    when check_violation then
        raise exception 'a pilot''s name has letters, digits and hyphens in lower case, 40 at most, and its'
                        ' settings 64 KiB: %', p_name using errcode = 'TQ400';
end
$$;
