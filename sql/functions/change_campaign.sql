-- change_campaign(path, spec): changes the settings that the spec names and leaves the others; see
-- create_campaign() and campaign_settings(). Null means "none", and leaves a setting that cannot be none. The change
-- applies to tasks that are claimed afterwards; agents that could not run the campaign try it again.
--
-- inputs: replaces all inputs by these, an object of names with digest and size, see add_input(): a handler and what
--     it reads change together.
-- Result: the new revision. Error TQ404: no such campaign. Error TQ400: the spec is not an object or names an
--     unknown setting, a tag is not well formed, or its JSON is beyond its limits, see json_fault(): 64 KiB
--     for the handler, 256 for the parameters. Error TQ403: its handler has agents unpickle something, and
--     the login (see may_pickle()) or the token (see permit()) does not allow that.
--
-- Locks: the campaign's row.
-- @roles submitter
-- @gateway submitter
-- @repeat safe
create or replace function taskq.change_campaign(p_path text, p_spec text)
returns integer
language plpgsql
as $$
declare
    v_spec jsonb;
    v_fault text;
    v_token constant text := current_setting('taskq.token_kind', true);
    v_now taskq.campaign;
    v_new taskq.campaign;
    v_settings constant jsonb := taskq.campaign_settings(p_path);
    v_revision integer;
begin
    select min(f.name || ' ' || f.fault) into v_fault
      from (values ('handler', taskq.json_fault((p_spec::json -> 'handler')::text, 65536, 100)),
                   ('params', taskq.json_fault((p_spec::json -> 'params')::text, 262144, 100)),
                   ('the campaign', taskq.json_fault(p_spec, 393216, 101))) as f (name, fault);
    if v_fault is not null then
        raise exception '%', v_fault using errcode = 'TQ400';
    end if;
    v_spec := p_spec;
    if jsonb_typeof(v_spec) <> 'object' then
        raise exception 'a campaign is described by a JSON object, not by %', jsonb_typeof(v_spec)
            using errcode = 'TQ400';
    end if;
    if v_spec -> 'handler' ? 'archive'
       and not (has_function_privilege(session_user, 'taskq.may_pickle()', 'execute')
                and coalesce(v_token, '') in ('', 'pickler'))
       and not exists (  -- who changes something else sends the handler as it is
           select from taskq.campaign c where c.path = p_path and c.handler = v_spec -> 'handler')
    then
        raise exception 'the % does not allow functions by value, which agents unpickle',
            case when coalesce(v_token, '') in ('', 'pickler') then 'login ' || session_user
                 else 'token of a ' || v_token end
            using errcode = 'TQ403';
    end if;
    select c.* into v_now from taskq.campaign c where c.path = p_path for no key update;
    if not found then
        raise exception 'no campaign %', p_path using errcode = 'TQ404';
    end if;
    select min(k.name) into v_fault
      from jsonb_object_keys(v_spec) as k (name)
     where k.name <> 'inputs'
       and not v_settings ? k.name;
    if v_fault is not null then
        raise exception 'a campaign has no setting %', quote_literal(left(v_fault, 80)) using errcode = 'TQ400';
    end if;
    -- Lists are read apart: in a record, a list of lists would become an array of more dimensions.
    v_new := jsonb_populate_record(
        v_now, v_spec - array['never_retry', 'memory', 'requires', 'max_running', 'inputs']);
    if v_spec ? 'max_running' then
        v_new.running_limit := v_spec ->> 'max_running';
    end if;
    update taskq.campaign c
       set description = coalesce(v_new.description, c.description),
           handler = v_new.handler,
           params = coalesce(v_new.params, c.params),
           max_attempts = coalesce(v_new.max_attempts, c.max_attempts),
           max_losses = coalesce(v_new.max_losses, c.max_losses),
           max_lost_nodes = coalesce(v_new.max_lost_nodes, c.max_lost_nodes),
           max_out_of_time = coalesce(v_new.max_out_of_time, c.max_out_of_time),
           backoff_s = coalesce(v_new.backoff_s, c.backoff_s),
           backoff_max_s = coalesce(v_new.backoff_max_s, c.backoff_max_s),
           never_retry = case when v_spec ? 'never_retry'
                              then array(select jsonb_array_elements_text(v_spec -> 'never_retry'))
                              else c.never_retry end,
           time_limit_s = v_new.time_limit_s,
           limited_at = case when v_new.time_limit_s = c.time_limit_s then c.limited_at
                             when v_new.time_limit_s is not null then clock_timestamp() end,
           running_limit = v_new.running_limit,
           max_running_per_site = v_new.max_running_per_site,
           max_failure_share = v_new.max_failure_share,
           checkpoint_bytes = v_new.checkpoint_bytes,
           checkpoint_every_s = coalesce(v_new.checkpoint_every_s, c.checkpoint_every_s),
           output_bytes = v_new.output_bytes,
           output_total_bytes = coalesce(v_new.output_total_bytes, c.output_total_bytes),
           cores = v_new.cores,
           gpus = v_new.gpus,
           memory = case when v_spec ? 'memory'
                         then nullif(array(
                             select jsonb_array_elements_text(nullif(v_spec -> 'memory', 'null'))::bigint),
                             '{}')
                         else c.memory end,
           weight = coalesce(v_new.weight, c.weight),
           tags = case when v_spec ? 'requires'
                       then taskq.tags('requires', array(
                           select jsonb_array_elements_text(v_spec -> 'requires')))
                       else c.tags end,
           on_disconnect = coalesce(v_new.on_disconnect, c.on_disconnect),
           late_results = coalesce(v_new.late_results, c.late_results),
           hedge = v_new.hedge,
           front = coalesce(v_new.front, c.front),
           best = v_new.best,
           revision = c.revision + 1
     where c.campaign_id = v_now.campaign_id
 returning c.revision into v_revision;
    perform taskq.forget_refusals(v_now.campaign_id);
    if v_spec ? 'inputs' then
        perform taskq.remove_input(p_path, k.name)
           from taskq.campaign c
          cross join lateral jsonb_object_keys(c.inputs) as k (name)
          where c.campaign_id = v_now.campaign_id
            and not v_spec -> 'inputs' ? k.name;
        perform taskq.add_input(p_path, i.name, i.value ->> 'digest', (i.value ->> 'size')::bigint)
           from jsonb_each(v_spec -> 'inputs') as i (name, value);
        select c.revision into v_revision from taskq.campaign c where c.campaign_id = v_now.campaign_id;
    end if;
    return v_revision;
end
$$;
