select name, rows from pg_temp.left_over()
