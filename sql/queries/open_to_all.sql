-- Where each login of the database can store without limit: a row for each place. closable: whether this login may
-- close it; is_shared: whether others than taskq use the database, who may need it.
-- @roles all
-- @standby no
-- @gateway no
select o.place, o.closable, o.remedy,
       exists (
           select
             from pg_class c
             join pg_namespace n on n.oid = c.relnamespace
            where n.nspname not in ('taskq', 'information_schema')
              and n.nspname not like 'pg@_%%' escape '@') as is_shared
  from (
      select 'temporary tables' as place, pg_has_role(d.datdba, 'usage') as closable,
             format('revoke temporary on database %%I from public', d.datname) as remedy
        from pg_database d
       where d.datname = current_database()
         and has_database_privilege('public', d.oid, 'temporary')
       union all
      select 'large objects', pg_has_role(p.proowner, 'usage'),
             'revoke execute on function lo_creat(integer), lo_create(oid), lo_from_bytea(oid, bytea), '
             'lo_put(oid, bigint, bytea), lowrite(integer, bytea), lo_truncate(integer, integer), '
             'lo_truncate64(integer, bigint) from public'
        from pg_proc p
       where p.oid in ('lo_creat(integer)'::regprocedure, 'lo_create(oid)'::regprocedure,
                       'lo_from_bytea(oid, bytea)'::regprocedure)
         and has_function_privilege('public', p.oid, 'execute')
       group by 2
       union all
      select 'the schema public', pg_has_role(n.nspowner, 'usage'),
             'revoke create on schema public from public'
        from pg_namespace n
       where n.nspname = 'public'
         and has_schema_privilege('public', n.oid, 'create')
       union all
      select 'files of large sorts', false, 'alter system set temp_file_limit = ''50GB'''
       where current_setting('temp_file_limit') = '-1'
  ) o
 order by o.place
