-- Records the installed version.
insert into taskq.installation (version, functions)
values (%(version)s, %(functions)s)
on conflict (only_one) do update
   set version = excluded.version, functions = excluded.functions
