-- change_campaign(path, spec): changes the settings that the spec names and leaves the others; see
-- create_campaign(). The change applies to tasks that are claimed afterwards; agents that could not run
-- the campaign try it again.
--
-- inputs: replaces all inputs by these, an object of names with digest and size, see add_input(): a handler and what
--     it reads change together.
-- Result: the new revision. Error TQ404: no such campaign. Error TQ400: the spec is no object, a
--     tag is not well formed, or its JSON is beyond its limits, see json_fault(): 64 KiB for the handler, 256
--     for the parameters. Error TQ403: its handler has agents unpickle something, which the login may
--     not order, see may_pickle(), or the token for which it is called, see permit().
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
    v_revision integer;
    v_id bigint;
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
        raise exception 'a campaign is described by a JSON object, not an %', jsonb_typeof(v_spec)
            using errcode = 'TQ400';
    end if;
    if v_spec -> 'handler' ? 'archive'
       and not (has_function_privilege(session_user, 'taskq.may_pickle()', 'execute')
                and coalesce(v_token, '') in ('', 'pickler'))
       and not exists (  -- who changes something else sends the handler as it is
           select from taskq.campaign c where c.path = p_path and c.handler = v_spec -> 'handler')
    then
        raise exception 'the % may not have agents unpickle functions',
            case when coalesce(v_token, '') in ('', 'pickler') then 'login ' || session_user
                 else 'token of a ' || v_token end
            using errcode = 'TQ403';
    end if;
    update taskq.campaign c
       set description = coalesce(v_spec ->> 'description', c.description),
           handler = case when v_spec ? 'handler' then nullif(v_spec -> 'handler', 'null')
                          else c.handler end,
           params = coalesce(v_spec -> 'params', c.params),
           max_attempts = coalesce((v_spec ->> 'max_attempts')::integer, c.max_attempts),
           max_losses = coalesce((v_spec ->> 'max_losses')::integer, c.max_losses),
           backoff_s = coalesce((v_spec ->> 'backoff_s')::double precision, c.backoff_s),
           backoff_max_s =
               coalesce((v_spec ->> 'backoff_max_s')::double precision, c.backoff_max_s),
           time_limit_s = case when v_spec ? 'time_limit_s'
                               then (v_spec ->> 'time_limit_s')::double precision
                               else c.time_limit_s end,
           weight = coalesce((v_spec ->> 'weight')::double precision, c.weight),
           tags = case when v_spec ? 'requires'
                       then taskq.tags('requires', array(
                           select jsonb_array_elements_text(v_spec -> 'requires')))
                       else c.tags end,
           cores = case when v_spec ? 'cores' then (v_spec ->> 'cores')::integer else c.cores end,
           gpus = case when v_spec ? 'gpus' then (v_spec ->> 'gpus')::integer else c.gpus end,
           memory = case when v_spec ? 'memory'
                         then nullif(array(
                             select jsonb_array_elements_text(nullif(v_spec -> 'memory', 'null'))::bigint),
                             '{}')
                         else c.memory end,
           running_limit = case when v_spec ? 'max_running'
                                then (v_spec ->> 'max_running')::integer
                                else c.running_limit end,
           max_running_per_site = case when v_spec ? 'max_running_per_site'
                                       then (v_spec ->> 'max_running_per_site')::integer
                                       else c.max_running_per_site end,
           on_disconnect = coalesce(v_spec ->> 'on_disconnect', c.on_disconnect),
           front = coalesce((v_spec ->> 'front')::boolean, c.front),
           late_results = coalesce(v_spec ->> 'late_results', c.late_results),
           hedge = case when v_spec ? 'hedge' then (v_spec ->> 'hedge')::double precision else c.hedge end,
           never_retry = case when v_spec ? 'never_retry'
                              then array(select jsonb_array_elements_text(v_spec -> 'never_retry'))
                              else c.never_retry end,
           max_lost_nodes = coalesce((v_spec ->> 'max_lost_nodes')::integer, c.max_lost_nodes),
           max_out_of_time =
               coalesce((v_spec ->> 'max_out_of_time')::integer, c.max_out_of_time),
           checkpoint_bytes = case when v_spec ? 'checkpoint_bytes'
                                   then (v_spec ->> 'checkpoint_bytes')::integer
                                   else c.checkpoint_bytes end,
           checkpoint_every_s = coalesce(
               (v_spec ->> 'checkpoint_every_s')::double precision, c.checkpoint_every_s),
           output_bytes = case when v_spec ? 'output_bytes'
                               then (v_spec ->> 'output_bytes')::integer
                               else c.output_bytes end,
           output_total_bytes = coalesce(
               (v_spec ->> 'output_total_bytes')::bigint, c.output_total_bytes),
           max_failure_share = case when v_spec ? 'max_failure_share'
                                    then (v_spec ->> 'max_failure_share')::double precision
                                    else c.max_failure_share end,
           revision = c.revision + 1
     where c.path = p_path
 returning c.revision, c.campaign_id into v_revision, v_id;
    if not found then
        raise exception 'no campaign %', p_path using errcode = 'TQ404';
    end if;
    perform taskq.forget_refusals(v_id);
    if v_spec ? 'inputs' then
        perform taskq.remove_input(p_path, k.name)
           from taskq.campaign c
          cross join lateral jsonb_object_keys(c.inputs) as k (name)
          where c.campaign_id = v_id
            and not v_spec -> 'inputs' ? k.name;
        perform taskq.add_input(p_path, i.name, i.value ->> 'digest', (i.value ->> 'size')::bigint)
           from jsonb_each(v_spec -> 'inputs') as i (name, value);
        select c.revision into v_revision from taskq.campaign c where c.campaign_id = v_id;
    end if;
    return v_revision;
end
$$;
