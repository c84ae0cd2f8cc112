-- mend_sequences(table, looks): sets sequences above all stored ids, where one is behind, such as in a copy by
-- native logical replication, which copies no sequences.
--
-- table: only the sequence of this one; null: of all but `spec`, which seed_begin() checks.
-- looks: changes nothing, and locks nothing.
-- Result: the tables whose sequence was behind.
--
-- Locks: a sequence that is behind, until the commit: nobody draws from it meanwhile, so that none is set back.
-- A transaction that has drawn from it before may deadlock with another one. Index: each primary key.
create or replace function taskq.mend_sequences(p_table text, p_looks boolean default false)
returns text[]
language plpgsql
as $$
declare
    v_mended text[] := '{}';
    v_one record;
    v_look text;
    v_behind bigint;
begin
    for v_one in
        select i.name, i.id, format('taskq.%s_%s_seq', i.name, i.id)::regclass as sequence
          from (values ('blob', 'blob_id'), ('campaign', 'campaign_id'), ('pilot', 'pilot_id'),
                       ('result_index', 'index_id'), ('session', 'session_id'), ('spec', 'task_id'),
                       ('token', 'token_id')) as i (name, id)
         where case when p_table is null then i.name <> 'spec' else i.name = p_table end
    loop
        -- The greatest id, if the next to be drawn is not above it.
        v_look := format(
            'select m.id from (%s) m, %s q where m.id >= q.last_value + q.is_called::integer',
            case when v_one.name = 'spec'
                 then 'select max(m.id) as id from taskq.campaign c cross join lateral ('
                      'select max(s.task_id) as id from taskq.spec s where s.campaign_id = c.campaign_id) m'
                 else format('select max(%I) as id from taskq.%I', v_one.id, v_one.name) end,
            v_one.sequence);
        -- Where there is nothing, the statement need not be planned.
        continue when pg_relation_size(format('taskq.%I', v_one.name)::regclass) = 0;
        execute v_look into v_behind;
        continue when v_behind is null;
        if p_looks then
            v_mended := v_mended || v_one.name;
            continue;
        end if;
        execute format('alter sequence %s no cycle', v_one.sequence);  -- changes nothing, but locks
        execute v_look into v_behind;
        continue when v_behind is null;
        execute format('alter sequence %s restart with %s', v_one.sequence, v_behind + 1);
        v_mended := v_mended || v_one.name;
    end loop;
    return v_mended;
end
$$;
