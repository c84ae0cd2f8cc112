-- The campaigns that the manager's token of this transaction is for; all without a token.
-- @roles all
-- @standby yes
-- @gateway manager
select coalesce(nullif(current_setting('taskq.token_paths', true), '')::text[], '{/}') as paths
