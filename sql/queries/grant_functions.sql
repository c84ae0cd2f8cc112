-- Grants a login the use of the schema, and of these functions.
-- @roles owner
grant usage on schema taskq to {login};
grant execute on function {functions} to {login}
