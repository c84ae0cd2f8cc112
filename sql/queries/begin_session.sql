-- Begins a connection: sets what taskq needs, see taskq/db/sessions.py. `unlike` has the settings that are wrong and
-- stay so, with their values: through a pooler, which shows by another process than `pid`, only those can be set that
-- the pooler carries to other server connections. A setting that this server does not know is right. All names are
-- qualified, since the search path is not yet set.
-- @roles all
-- @standby no
-- @gateway no
select pg_catalog.pg_backend_pid() as pid,
       pg_catalog.quote_ident(session_user) as login,
       pg_catalog.quote_ident(pg_catalog.current_database()) as database,
       (select coalesce(pg_catalog.json_object_agg(s.name, s.value), '{}')
          from (
              select w.key as name, pg_catalog.current_setting(w.key, true) as value,
                     case when pg_catalog.pg_backend_pid() operator(pg_catalog.=) %(pid)s::pg_catalog.int4
                            or w.key operator(pg_catalog.=) any (%(carried)s::pg_catalog.text[])
                          then pg_catalog.set_config(w.key, w.value, false) end as is_set
                from pg_catalog.json_each_text(%(settings)s::pg_catalog.json) w
               where pg_catalog.current_setting(w.key, true) operator(pg_catalog.<>) w.value
          ) s
         where s.is_set is null) as unlike
