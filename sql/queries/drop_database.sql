-- @roles owner
drop database {database} with (force)
