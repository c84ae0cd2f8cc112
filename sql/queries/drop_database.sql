drop database {database} with (force)
