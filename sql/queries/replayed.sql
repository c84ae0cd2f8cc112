-- How far this server is behind the one that it follows: seconds since the last commit that it has
-- replayed; 0: it follows nobody; null: it has replayed none since its start.
-- @roles all
-- @standby no
-- @gateway no
select case when pg_is_in_recovery()
            then extract(epoch from clock_timestamp() - pg_last_xact_replay_timestamp())::double precision
            else 0.0::double precision
       end as behind_s
