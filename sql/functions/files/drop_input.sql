-- drop_input(path, name): remove_input() without a note of the recipe. A part of remove_input() and change_campaign();
-- not for clients.
create or replace function taskq.drop_input(p_path text, p_name text)
returns integer
language plpgsql
as $$
declare
    v_campaign bigint;
    v_revision integer;
begin
    update taskq.campaign c
       set inputs = c.inputs - p_name,
           revision = c.revision + 1
     where c.path = p_path
       and c.inputs ? p_name
 returning c.campaign_id, c.revision into v_campaign, v_revision;
    if not found then
        perform taskq.campaign_id(p_path);
        raise exception 'campaign % has no input %', p_path, quote_literal(p_name)
            using errcode = 'TQ404';
    end if;
    perform taskq.forget_refusals(v_campaign);
    perform taskq.note_act(p_path, 'change', array['input ' || p_name]);
    return v_revision;
end
$$;
