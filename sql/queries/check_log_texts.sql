-- Which texts of statements the server writes into its log, and how much of their parameters (-1: all).
-- @roles all
-- @standby no
-- @gateway no
select current_setting('log_statement') as statements,
       current_setting('log_min_duration_statement') = '0' as all_slow,
       (select s.setting::integer from pg_settings s where s.name = 'log_parameter_max_length') as bytes
