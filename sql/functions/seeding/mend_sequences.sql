-- mend_sequences(table): sets sequences above all stored ids, where one is behind, such as in a copy by
-- native logical replication, which copies no sequences.
--
-- table: only the sequence of this one; null: of all but `spec`, which seed_begin() checks.
-- Result: the tables whose sequence was behind.
--
-- Locks: a sequence that is behind, until the commit: nobody draws from it meanwhile, so that none is set back.
-- A transaction that has drawn from it before may deadlock with another one. Index: each primary key.
create or replace function taskq.mend_sequences(p_table text)
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
        select c.relname as name, a.attname as id,
               pg_get_serial_sequence(format('taskq.%I', c.relname), a.attname) as sequence
          from pg_class c
          join pg_attribute a on a.attrelid = c.oid
         where c.relnamespace = 'taskq'::regnamespace
           and a.attidentity <> ''
           and case when p_table is null then c.relname <> 'spec' else c.relname = p_table end
         order by c.relname
    loop
        -- The greatest id, if the next to be drawn is not above it.
        v_look := format(
            'select m.id from (%s) m, %s q where m.id >= q.last_value + q.is_called::integer',
            case when v_one.name = 'spec'
                 then 'select max(m.id) as id from taskq.campaign c cross join lateral ('
                      'select max(s.task_id) as id from taskq.spec s where s.campaign_id = c.campaign_id) m'
                 else format('select max(%I) as id from taskq.%I', v_one.id, v_one.name) end,
            v_one.sequence);
        execute v_look into v_behind;
        continue when v_behind is null;
        execute format('alter sequence %s no cycle', v_one.sequence);  -- changes nothing, but locks
        execute v_look into v_behind;
        continue when v_behind is null;
        execute format('alter sequence %s restart with %s', v_one.sequence, v_behind + 1);
        v_mended := v_mended || v_one.name::text;
    end loop;
    return v_mended;
end
$$;
