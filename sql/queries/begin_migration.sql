-- Settings of a migration. A statement that waits for a table makes all later ones wait behind it, so it gives up
-- soon. Bodies of functions are not checked: they may call functions that come after them.
-- @roles owner
select set_config('lock_timeout', %(lock_timeout)s, true),
       set_config('check_function_bodies', 'off', true)
