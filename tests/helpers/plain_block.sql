-- Needs the library of PL/pgSQL.
do $$ begin end $$
