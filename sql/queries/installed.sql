-- Records what is installed.
-- @roles owner
insert into taskq.installation (migrations, functions)
values (%(migrations)s, %(functions)s)
on conflict (only_one) do update
   set migrations = excluded.migrations, functions = excluded.functions
