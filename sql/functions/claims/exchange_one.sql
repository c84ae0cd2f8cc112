-- exchange_one(campaign, reports, session, lease): exchange() for the commonest case: a session reports that its
-- attempt succeeded, and claims one task. Everything else is left to exchange(), with the same results.
--
-- reports: an array of one report, see exchange(). session: the one that reports, and claims. lease: the new lease id;
-- null: it claims nothing.
-- Results and errors: see exchange().
--
-- The usual case: the campaign is open, requires nothing that the agent does not offer, and does not limit how
-- many run; the span of the connection's position hint, or the first one if the hint has expired, has tasks left and
-- is not locked, and no task with a row comes before them, see usual_position().
--
-- After an accepted report the claim does not need to read the session. A session that ended gave its tasks back, so
-- this one has not; if it ends meanwhile, expire() finds what it has got. A repeated exchange finds its attempt
-- ended, so this is no repetition, and its lease id is new: draw one for each exchange.
--
-- Locks: the row of the task, then the span. Index: task_pkey, span_pkey, span_waiting, spec_pkey, campaign_pkey.
--
-- Most of the time of a statement on one row goes into setting it up. So each has one table, whose columns it names:
-- a join, a CTE or a second sub-select costs as much as another statement, and a call of a function half of that.
-- Each operator, and each column of an insert, costs more than a thousand instructions.
-- @roles serving
-- @plan generic by-one-key
create or replace function taskq.exchange_one(
    p_campaign bigint,
    p_reports text,
    p_session bigint,
    p_lease uuid,
    out acks text[],
    out tasks json,
    out refused bigint[],
    out revision integer,
    out spent bigint[],
    out avoided bigint[]
)
language plpgsql
as $$
declare
    v_report jsonb;
    v_attempt integer;
    v_claimed_at timestamptz;
    v_hint bigint[];
    v_span tid;
    v_next bigint;
    v_last bigint;
    v_priority smallint;
    v_requires text[];
    v_fits boolean;
    v_task bigint;
    v_setting text;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        perform taskq.demand_read_committed();
    end if;
    v_report := case when taskq.is_gateway() then p_reports::jsonb
                     else taskq.checked_reports(p_reports) end -> 0;
    if v_report ->> 'outcome' = 'done' then
        delete from taskq.task t
         where t.campaign_id = p_campaign
           and t.task_id = (v_report ->> 'task')::bigint
           and t.lease_id = (v_report ->> 'lease')::uuid
           and t.session_id = p_session
           and t.status::text = 'working'  -- by task_pkey, see settle()
     returning t.task_id, t.attempt, t.claimed_at into v_task, v_attempt, v_claimed_at;
    end if;
    if v_attempt is null then
        select e.acks, e.tasks, e.refused, e.revision, e.spent, e.avoided
          into acks, tasks, refused, revision, spent, avoided
          from taskq.exchange(
                   p_campaign, p_reports,
                   case when p_lease is not null then array[p_session] end,
                   case when p_lease is not null then array[p_lease] end,
                   case when p_lease is not null then '{1}'::integer[] end) e;
        return;
    end if;
    insert into taskq.attempt (
           campaign_id, task_id, attempt, exit_code, lease_id, session_id, claimed_at,
           ended_at, outcome, error, result, phases, tail, recipe)
    values (p_campaign, v_task, v_attempt, (v_report ->> 'exit_code')::integer,
            (v_report ->> 'lease')::uuid, p_session, v_claimed_at, clock_timestamp(), 'done',
            v_report ->> 'error', v_report -> 'result', v_report -> 'phases', v_report ->> 'tail',
            (v_report ->> 'recipe')::integer);
    acks := '{accepted}';
    v_task := null;

    if p_lease is not null then
        select c.revision, c.requires, c.requires = '{}' into revision, v_requires, v_fits
          from taskq.campaign c
         where c.campaign_id = p_campaign
           and c.max_running is null
           and not exists (
               select from taskq.campaign a
                where a.campaign_id = any (c.lineage)
                  and a.status <> 'open'
               offset 0);
        if not v_fits then
            select taskq.offered(v_requires, e.offers) into v_fits
              from taskq.session e
             where e.session_id = p_session;
        end if;
        if v_fits then
            v_hint := taskq.position_hint(p_campaign);
            if taskq.is_fresh(v_hint) then
                if v_hint[taskq.hint('clear_to')] is null then
                    v_hint := case when v_hint[taskq.hint('again')] = 0 and v_hint[taskq.hint('span')] > 0
                                   then taskq.usual_position(p_campaign, v_hint) end;
                end if;
                select s.ctid, s.next_id, least(s.last_id, s.next_id + 15), s.priority
                  into v_span, v_next, v_last, v_priority
                  from taskq.span s
                 where s.campaign_id = p_campaign
                   and s.first_id = v_hint[taskq.hint('span')]
                   and s.next_id < v_hint[taskq.hint('clear_to')]
                   and s.status <= 'waiting'  -- the first one; not answered by span_waiting
                   for no key update skip locked;
            else
                select s.ctid, s.next_id, least(s.last_id, s.next_id + 15), s.priority,
                       taskq.new_hint(-s.priority, s.first_id)
                  into v_span, v_next, v_last, v_priority, v_hint
                  from taskq.span s
                 where s.campaign_id = p_campaign
                   and s.status = 'waiting'
                 order by s.campaign_id, (-s.priority), s.first_id
                 limit 1
                   for no key update skip locked;
                v_hint := taskq.usual_position(p_campaign, v_hint, v_next);
                if v_hint is null then
                    v_next := null;
                end if;
            end if;
            -- Without a limit, which is a node to set up: `into` asks for one row. The server looks at all entries in
            -- the range that are on a page.
            select s.task_id, json_build_array(
                       json_build_array(p_lease, s.task_id, 1, s.key, s.payload, p_session))
              into v_task, tasks
              from taskq.spec s
             where s.campaign_id = p_campaign
               and s.task_id >= v_next
               and s.task_id <= v_last
             order by s.campaign_id, s.task_id;
        end if;
    end if;
    if v_task is not null then
        update taskq.span s
           set next_id = v_task + 1
         where s.ctid = v_span;
        insert into taskq.task (
               campaign_id, task_id, lease_id, session_id, claimed_at, status, attempt, priority)
        -- After the lock: an attempt begins after the one before it has ended.
        values (p_campaign, v_task, p_lease, p_session, clock_timestamp(), 'working', 1, v_priority);
        insert into taskq.delta (campaign_id, waiting, done) values (p_campaign, -1, 1);
        if v_hint[taskq.hint('until')] < 0 then
            v_setting := taskq.keep_position(p_campaign, v_hint);
        end if;
    else
        insert into taskq.delta (campaign_id, working, done) values (p_campaign, -1, 1);
        if p_lease is not null then
            select e.tasks, e.refused, e.revision, e.spent, e.avoided
              into tasks, refused, revision, spent, avoided
              from taskq.exchange(p_campaign, null, array[p_session], array[p_lease], '{1}') e;
        end if;
    end if;
    if random() < 1.0 / 1024 then
        perform taskq.fold();
    end if;
end
$$;
