-- note_act(path, verb, what, tasks, who): notes that somebody did something at a campaign. A part of the functions that
-- do it, called last, since it may wait for nobody; not for clients.
--
-- what: in short, such as the names of settings; at most 20 texts of 200 characters each are kept. tasks: how many it
--     moved. who: null: the caller.
-- The same again within a minute adds to the row of before, so that a program that acts without end has a row a minute.
-- What one transaction changes is noted together.
--
-- Locks: a row of `act`, passing over a locked one. Index: act_path, act_pkey.
-- @plan by-one-key
create or replace function taskq.note_act(
    p_path text, p_verb text, p_what text[] default '{}', p_tasks bigint default 0, p_who text default null)
returns void
language plpgsql
as $$
declare
    v_now constant timestamptz := clock_timestamp();
    v_who constant text := left(coalesce(p_who, taskq.caller()), 200);
    -- Of a login many people may have, each client has connections of its own.
    v_pid constant integer := case when taskq.token_setting('token_name') is null then pg_backend_pid() end;
    v_what text[] := array(
        select left(regexp_replace(w.text, '[[:cntrl:]]+', ' ', 'g'), 200) from unnest(p_what[:20]) as w (text));
    v_last taskq.act;
begin
    select a.* into v_last
      from taskq.act a
     where a.path = p_path
       and a.verb = p_verb
       and a.who = v_who
     order by a.path desc, a.verb desc, a.who desc, a.act_id desc
     limit 1;
    if p_verb = 'change' and v_last.began_at = transaction_timestamp() then
        v_what := array(
            select distinct w.text from unnest(v_last.what || v_what) as w (text) order by w.text limit 20);
    elsif (v_last.what = v_what
           and v_last.pid is not distinct from v_pid
           and v_last.ended_at > v_now - interval '1 min'
           and p_verb <> 'change') is not true then
        v_last := null;
    end if;
    if not taskq.add_to_act(v_last.act_id, p_tasks, v_what) then
        insert into taskq.act (path, verb, who, pid, what, began_at, ended_at, tasks)
        values (p_path, p_verb, v_who, v_pid, v_what, transaction_timestamp(), v_now, p_tasks);
    end if;
end
$$;
