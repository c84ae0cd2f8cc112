-- Some settings as new sessions of this login have them; and what the database, or a login here, sets of them
-- (place: which). Reads catalogs.
-- @roles all
-- @standby no
-- @gateway no
select s.name, s.reset_val as value, '' as place
  from pg_settings s
 where s.name = any (%(names)s::text[])
 union all
select split_part(c.setting, '=', 1), substr(c.setting, strpos(c.setting, '=') + 1),
       case when d.setrole = 0 then 'database ' || quote_ident(current_database())
            when d.setdatabase = 0 then 'role ' || quote_ident(r.rolname)
            else 'role ' || quote_ident(r.rolname) || ' in database ' || quote_ident(current_database()) end
  from pg_db_role_setting d
 cross join unnest(d.setconfig) as c (setting)
  left join pg_roles r on r.oid = d.setrole
 where d.setdatabase in (0, (select b.oid from pg_database b where b.datname = current_database()))
   and split_part(c.setting, '=', 1) = any (%(names)s::text[])
 order by 1, 3
