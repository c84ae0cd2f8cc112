-- Settings that figures depend on: those in force for this role in this database, wherever they
-- come from, and those that functions of taskq bring along.
select name, setting, 'the ' || source as place
  from pg_settings
 where name = any(%(names)s::text[])
union all
select split_part(c, '=', 1), split_part(c, '=', 2), 'function ' || p.proname
  from pg_proc p
  join pg_namespace n on n.oid = p.pronamespace
  cross join unnest(p.proconfig) c
 where n.nspname = 'taskq'
   and split_part(c, '=', 1) = any(%(names)s::text[])
