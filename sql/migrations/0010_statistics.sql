-- When statistics are made anew. By default a table is analysed when a tenth of it has changed: beside
-- five million older tasks one campaign of half a million stays unknown for good. No plan of ours depends
-- on that, see functions/tasks.sql; queries of people and reports do. ANALYZE reads 30,000 rows at most,
-- whatever the size of the table, and holds up nobody; autovacuum looks once a minute.

alter table taskq.spec set (
    autovacuum_analyze_scale_factor = 0.01,
    autovacuum_analyze_threshold = 10000);

-- Each task changes twice.
alter table taskq.task set (
    autovacuum_analyze_scale_factor = 0.02,
    autovacuum_analyze_threshold = 20000);

alter table taskq.attempt set (
    autovacuum_analyze_scale_factor = 0.01,
    autovacuum_analyze_threshold = 10000);
