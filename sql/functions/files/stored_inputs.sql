-- stored_inputs(campaign, inputs, keeps): the blobs that a campaign holds as inputs: those that it has now, and with
-- the setting keep_inputs those of its recipes that it has no longer. A part of stored_bytes(), owners() and
-- remove_unused_blobs(); not for clients.
--
-- inputs, keeps: the columns inputs and keep_inputs of its row.
-- Result: an input that it has now as often as it has it; another once. Index: recipe_pkey.
create or replace function taskq.stored_inputs(p_campaign bigint, p_inputs jsonb, p_keeps boolean)
returns table (digest text, size bigint)
language sql stable
as $$
    select i.value ->> 'digest', (i.value ->> 'size')::bigint
      from jsonb_each(p_inputs) i
     union all
    select i.value ->> 'digest', (i.value ->> 'size')::bigint
      from taskq.recipe r
     cross join lateral jsonb_each(r.inputs) i
     where p_keeps
       and r.campaign_id = p_campaign
       and not exists (
               select
                 from jsonb_each(p_inputs) h
                where h.value ->> 'digest' = i.value ->> 'digest')
     group by 1, 2
$$;
