-- put_input(path, name, digest, size): add_input() without a note of the recipe. A part of add_input() and
-- change_campaign(); not for clients.
create or replace function taskq.put_input(
    p_path text, p_name text, p_digest text, p_size bigint
)
returns integer
language plpgsql
as $$
declare
    v_campaign taskq.campaign;
    v_input constant jsonb := jsonb_build_object('digest', p_digest, 'size', p_size);
begin
    if p_name !~ '^[A-Za-z0-9][A-Za-z0-9._+@=,-]{0,99}$' then
        raise exception
            'the name of an input must be 1 to 100 letters, digits and . _ + @ = , - and not %',
            quote_literal(p_name)
            using errcode = 'TQ400';
    end if;
    if p_digest !~ '^[0-9a-f]{64}$' or p_size not between 0 and 1073741824 then
        raise exception 'the digest of an input has 64 digits, 0-9 and a-f, and its size is at most 1 GiB'
            using errcode = 'TQ400';
    end if;
    select c.* into v_campaign from taskq.campaign c where c.path = p_path for update;
    if not found then
        raise exception 'no campaign %', p_path using errcode = 'TQ404';
    end if;
    if v_campaign.inputs -> p_name = v_input then
        return v_campaign.revision;
    end if;
    if (select count(*) from jsonb_object_keys(v_campaign.inputs - p_name)) >= 100 then
        raise exception 'campaign % has 100 inputs, the most allowed: remove one (taskq input rm)', p_path
            using errcode = 'TQ400';
    end if;
    perform taskq.check_bytes(
        v_campaign.owner,
        p_size - case when v_campaign.keep_inputs then 0
                      else coalesce((v_campaign.inputs -> p_name ->> 'size')::bigint, 0) end);
    update taskq.campaign c
       set inputs = c.inputs || jsonb_build_object(p_name, v_input),
           revision = c.revision + 1
     where c.campaign_id = v_campaign.campaign_id;
    perform taskq.forget_refusals(v_campaign.campaign_id);  -- agents that lacked it try again
    if v_campaign.created_at < transaction_timestamp() then
        perform taskq.note_act(p_path, 'change', array['input ' || p_name]);
    end if;
    return v_campaign.revision + 1;
end
$$;
