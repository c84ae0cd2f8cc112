-- change_campaign(path, spec): changes the settings that the spec names and leaves the others; see
-- create_campaign() and campaign_settings(). Null means "none", and leaves a setting that cannot be none. The change
-- applies to tasks that are claimed afterwards; agents that could not run the campaign try it again.
--
-- inputs: replaces all inputs by these, an object of names with digest and size, see add_input(): a handler and what
--     it reads change together.
-- Result: the new revision. Error TQ404: no such campaign. Error TQ400: the spec is not an object or names an
--     unknown setting, a tag is not well formed, or its JSON is beyond its limits, see json_fault(): 64 KiB
--     for the handler, 256 for the parameters. Its handler has agents unpickle something: error TQ403 if the
--     token does not allow that, see permit(); TQ407 if the login does not, see may_pickle().
--
-- Error TQ409: it, or one above it, is archived.
-- Error TQ404: it names a limit that does not exist; error TQ403: one that is not for its owner, see set_limit().
--
-- Locks: the campaign's row; before it one against changes of limits, shared, if it names some.
-- @roles submitter
-- @gateway submitter
-- @repeat safe
-- @act change
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
       and not exists (  -- a change of other settings sends the stored handler along
           select from taskq.campaign c where c.path = p_path and c.handler = v_spec -> 'handler')
    then
        if coalesce(v_token, '') not in ('', 'pickler') then
            raise exception 'the token of a % does not allow functions by value, which agents unpickle', v_token
                using errcode = 'TQ403';
        end if;
        raise exception 'the login % does not allow functions by value, which agents unpickle; the owner of the '
                        'schema lets it, by `taskq db grant pickler %`', session_user, session_user
            using errcode = 'TQ407';
    end if;
    if v_spec -> 'named_limits' not in ('[]', 'null') then  -- before the row, as remove_limit() does
        perform pg_advisory_xact_lock_shared(hashtext('taskq.limits'), 0);
    end if;
    select c.* into v_now from taskq.campaign c where c.path = p_path for no key update;
    if not found then
        raise exception 'no campaign %', p_path using errcode = 'TQ404';
    end if;
    perform taskq.demand_not_archived(v_now.campaign_id);
    select min(k.name) into v_fault
      from jsonb_object_keys(v_spec) as k (name)
     where k.name <> 'inputs'
       and not v_settings ? k.name;
    if v_fault is not null then
        raise exception 'a campaign has no setting %', quote_literal(left(v_fault, 80)) using errcode = 'TQ400';
    end if;
    -- Lists are read apart: in a record, a list of lists would become an array of more dimensions.
    v_new := jsonb_populate_record(
        v_now,
        v_spec - array['never_retry', 'require', 'require_files', 'memory', 'requires', 'max_running',
                       'named_limits', 'named_resources', 'inputs'] - array(
            select a.attname::text
              from pg_attribute a
             where a.attrelid = 'taskq.campaign'::regclass
               and a.attnotnull
               and v_spec -> a.attname = 'null'));
    if v_spec ? 'never_retry' then
        v_new.never_retry := array(select jsonb_array_elements_text(v_spec -> 'never_retry'));
    end if;
    if v_spec ? 'require' then
        v_new.require := array(select jsonb_array_elements_text(nullif(v_spec -> 'require', 'null')));
    end if;
    if v_spec ? 'require_files' then
        v_new.require_files := array(select jsonb_array_elements_text(nullif(v_spec -> 'require_files', 'null')));
    end if;
    if v_spec ? 'memory' then
        v_new.memory_learns := v_spec -> 'memory' = '"learn"';
        if not v_new.memory_learns then
            v_new.memory := nullif(
                array(select jsonb_array_elements_text(nullif(v_spec -> 'memory', 'null'))::bigint), '{}');
        elsif not v_now.memory_learns then
            v_new.memory := null;
        end if;
    end if;
    if v_spec ? 'requires' then
        v_new.tags := taskq.checked_tags(
            'requires', array(select jsonb_array_elements_text(v_spec -> 'requires')));
    end if;
    if v_spec ? 'named_limits' then
        v_new.named_limits := taskq.checked_limits(
            array(select jsonb_array_elements_text(nullif(v_spec -> 'named_limits', 'null'))),
            v_now.named_limits, v_now.owner);
    end if;
    if v_spec ? 'named_resources' then
        v_new.named_resources := taskq.resource_tags(v_spec -> 'named_resources');
    end if;
    if v_spec ? 'max_running' then
        v_new.running_limit := v_spec ->> 'max_running';
    end if;
    if v_new.time_limit_s is distinct from v_now.time_limit_s then
        v_new.limited_at := case when v_new.time_limit_s is not null then clock_timestamp() end;
    end if;
    v_new.revision := v_now.revision + 1;
    -- Settings are columns of the same names, so a new one needs no line here.
    execute (
        select format(
                   'update taskq.campaign c set %s where c.campaign_id = ($1).campaign_id',
                   string_agg(format('%1$I = ($1).%1$I', a.attname), ', '))
          from pg_attribute a
         where a.attrelid = 'taskq.campaign'::regclass
           and a.attgenerated = ''
           and (v_settings ? a.attname or a.attname in ('running_limit', 'memory_learns', 'tags', 'limited_at', 'revision')))
      using v_new;
    perform taskq.forget_refusals(v_now.campaign_id);
    if v_spec ? 'inputs' then
        perform taskq.drop_input(p_path, k.name)
           from taskq.campaign c
          cross join lateral jsonb_object_keys(c.inputs) as k (name)
          where c.campaign_id = v_now.campaign_id
            and not v_spec -> 'inputs' ? k.name;
        perform taskq.put_input(p_path, i.name, i.value ->> 'digest', (i.value ->> 'size')::bigint)
           from jsonb_each(v_spec -> 'inputs') as i (name, value);
    end if;
    perform taskq.note_recipe(v_now);
    if v_now.created_at < transaction_timestamp() then  -- else it has been created just now
        perform taskq.note_act(p_path, 'change', w.names)
           from (select array_agg(n.key order by n.key) as names
                   from jsonb_each(taskq.campaign_settings(p_path)) n
                  where v_spec ? n.key
                    and n.value is distinct from v_settings -> n.key) w
          where w.names is not null;
    end if;
    return (select c.revision from taskq.campaign c where c.campaign_id = v_now.campaign_id);
end
$$;
