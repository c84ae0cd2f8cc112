-- Drops functions of an earlier release with arguments that this one does not know: all that the running transaction
-- has not installed, itself (age 0) or in a savepoint (later still). The others keep their grants.
-- @roles owner
do $$
declare
    v_stale regprocedure;
begin
    for v_stale in
        select p.oid
          from pg_catalog.pg_proc p
         where p.pronamespace = 'taskq'::regnamespace
           and age(p.xmin) > 0
    loop
        execute 'drop routine ' || v_stale;
    end loop;
end
$$
