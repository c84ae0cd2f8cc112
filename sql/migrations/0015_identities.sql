-- What databases that are copied, upgraded or lent ask of the tables: each row can be named in a logical
-- publication, and the timeline goes on where a server's own begins anew.

-- It has no key, and in a publication of all tables PostgreSQL refuses to delete what it cannot name. Where
-- there is none, this costs nothing.
alter table taskq.delta replica identity full;

-- earlier: the timelines of servers that this one goes on from though its own number is lower, added up:
-- pg_upgrade, and a copy into another server, begin at 1 again. See functions/timeline.sql.
alter table taskq.serving add column earlier bigint not null default 0;
