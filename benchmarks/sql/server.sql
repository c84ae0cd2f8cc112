-- How programs on the machine of the server reach it.
select current_user::text as role, current_database() as database,
       inet_server_addr() is null as here,
       -- Names with odd characters stand in quotes there.
       btrim(split_part(current_setting('unix_socket_directories'), ',', 1), '"') as socket_dir,
       current_setting('port')::integer as port,
       current_setting('data_directory') as data_dir
