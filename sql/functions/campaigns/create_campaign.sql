-- create_campaign(path, spec): creates a campaign, and those above it that are missing.
--
-- path: '/name/name...'. spec: a JSON object with any of the settings, under the names that they have in campaign
--     files, without tables, such as max_attempts for retry.max_attempts; docs/campaign-file.md says of each what
--     it means, its range and its default. memory is an array of bytes. inputs: see change_campaign().
-- Result: its id. Error TQ409: it exists, or one above it is archived. Error TQ400: the path or a tag is not well
--     formed.
--
-- Its owner is the login, or the token for which a gateway calls, see permit(); a session may name that token only if
-- its login may act for tokens.
--
-- Locks: the unique path: of two callers at once, one gets TQ409; one against set_quota() for the owner,
-- shared; the campaign above it, if this is the first below.
-- @roles submitter
-- @gateway submitter
-- @repeat once
-- @act no: the campaign has its owner and its time
create or replace function taskq.create_campaign(p_path text, p_spec text default '{}')
returns bigint
language plpgsql
as $$
declare
    v_parent_path constant text := coalesce(nullif(regexp_replace(p_path, '/[^/]*$', ''), ''), '/');
    v_owner constant text := taskq.caller();
    v_parent taskq.campaign;
    v_id bigint;
begin
    perform taskq.demand_read_committed();
    if p_path = '/' then
        raise exception 'the root campaign is always there' using errcode = 'TQ409';
    end if;
    if p_path !~ '^(/[A-Za-z0-9][A-Za-z0-9._+@=,-]{0,99})+$' or length(p_path) > 1000 then
        raise exception 'campaign path % is not well formed', quote_literal(p_path)
            using errcode = 'TQ400';
    end if;
    loop
        select c.* into v_parent from taskq.campaign c where c.path = v_parent_path;
        exit when found;
        begin
            perform taskq.create_campaign(v_parent_path);
        exception when sqlstate 'TQ409' then
            -- Either somebody else has just made it, or it cannot be made.
            perform from taskq.campaign c where c.path = v_parent_path;
            if not found then
                raise;
            end if;
        end;
    end loop;

    perform taskq.demand_not_archived(v_parent.campaign_id);
    perform pg_advisory_xact_lock_shared(-3, hashtext(v_owner));
    if not v_parent.has_below then
        update taskq.campaign c set has_below = true where c.campaign_id = v_parent.campaign_id and not c.has_below;
    end if;
    insert into taskq.campaign (parent_id, path, lineage, owner, running_quota)
    values (v_parent.campaign_id, p_path, '{}', v_owner, taskq.running_quota(v_owner))
    on conflict (path) do nothing
    returning campaign_id into v_id;
    if v_id is null then
        raise exception 'campaign % exists already', p_path using errcode = 'TQ409';
    end if;
    update taskq.campaign c
       set lineage = v_parent.lineage || v_id
     where c.campaign_id = v_id;
    insert into taskq.counter (campaign_id) values (v_id);
    insert into taskq.subtotal (campaign_id) values (v_id);
    insert into taskq.delta (campaign_id, children) values (v_parent.campaign_id, 1);
    perform taskq.change_campaign(p_path, p_spec);
    return v_id;
end
$$;
