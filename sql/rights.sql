-- Nobody but the owner may use the schema without a grant: PostgreSQL lets everybody execute a new
-- function, and ours run with the owner's rights.
revoke all on schema taskq from public;
revoke all on all tables in schema taskq from public;
revoke all on all functions in schema taskq from public;
