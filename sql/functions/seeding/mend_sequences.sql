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
        select c.relname as name, a.attname as id, q.oid::regclass as sequence
          from pg_class q
          join pg_depend d on d.classid = 'pg_class'::regclass and d.objid = q.oid and d.deptype = 'i'
          join pg_class c on c.oid = d.refobjid
          join pg_attribute a on a.attrelid = c.oid and a.attnum = d.refobjsubid
         where q.relnamespace = 'taskq'::regnamespace
           and q.relkind = 'S'
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
        if p_looks then
            v_mended := v_mended || v_one.name::text;
            continue;
        end if;
        execute format('alter sequence %s no cycle', v_one.sequence);  -- changes nothing, but locks
        execute v_look into v_behind;
        continue when v_behind is null;
        execute format('alter sequence %s restart with %s', v_one.sequence, v_behind + 1);
        v_mended := v_mended || v_one.name::text;
    end loop;
    return v_mended;
end
$$;
