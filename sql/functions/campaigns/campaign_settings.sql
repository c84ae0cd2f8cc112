-- campaign_settings(path): the settings of a campaign, in the form that change_campaign() takes.
--
-- Result: a JSON object; null if there is no such campaign. It is the row without the columns that are not settings,
-- so a new setting needs no change here. Index: campaign_path_key.
-- @roles all
-- @standby yes
-- @gateway no
create or replace function taskq.campaign_settings(p_path text)
returns jsonb
language sql stable
as $$
    select to_jsonb(c)
           - array['campaign_id', 'parent_id', 'path', 'lineage', 'status', 'revision', 'created_at', 'inputs',
                   'paused_why', 'owner', 'running_quota', 'hedged', 'payload_bytes', 'seeded_at', 'tags',
                   'running_limit', 'limited_at', 'memory_learns', 'recipe', 'has_below']
           || jsonb_build_object(
                  'requires', c.tags, 'max_running', c.running_limit,
                  'named_resources', taskq.needed_resources(c.named_resources),
                  'memory', case when c.memory_learns then '"learn"' else to_jsonb(coalesce(c.memory, '{}')) end)
      from taskq.campaign c
     where c.path = p_path
$$;
