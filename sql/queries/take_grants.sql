-- Revokes all grants of a login in the schema.
-- @roles owner
revoke all on schema taskq from {login};
revoke all on all tables in schema taskq from {login};
revoke all on all functions in schema taskq from {login};
