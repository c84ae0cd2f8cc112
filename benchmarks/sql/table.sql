-- The least that a task table can be: what pgbench can do on it is the limit.
create table public.bare (
    id bigint generated always as identity primary key,
    status smallint not null default 0,
    owner integer,
    claimed_at timestamptz,
    finished_at timestamptz,
    payload jsonb not null,
    result jsonb
);
create index bare_waiting on public.bare (id) where status = 0;
