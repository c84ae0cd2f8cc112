-- Ordinary tasks are kept packed: those that nobody has touched as spans of ids, those of a claim for
-- several tasks as one bundle, and those that are done as nothing but their attempt. A task has a row in
-- `task` as soon as something else has happened to it, or while it is worked on by itself.
--
--     waiting   in a span, or a row
--     working   in a bundle, or a row
--     done      an attempt that is done, and neither a row nor any of the above
--     others    a row
--
-- So the life of most tasks writes a spec, its share of a bundle, and an attempt. Every verb but claim and
-- report knows rows only, and unpacks what it is about first: see functions/unpack.sql.

-- Their results or parameters are others.
drop function if exists taskq.pick(bigint, integer, integer, boolean);

lock table taskq.campaign, taskq.task in access exclusive mode;

-- Waiting tasks of one campaign and priority, seeded together: the specs from next_id to last_id; none,
-- until the next claim removes it, if next_id lies behind that.
-- first_id never changes, so that taking tasks leaves the indexes alone.
create table taskq.span (
    campaign_id bigint not null,
    first_id bigint not null,
    next_id bigint not null,
    last_id bigint not null,
    priority smallint not null,
    constraint span_pkey primary key (campaign_id, first_id)
)
with (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.1,
    autovacuum_vacuum_threshold = 5000
);

-- Claims walk this in order, as they do task_waiting.
create index span_waiting on taskq.span (campaign_id, (-priority), first_id);

-- What an agent has of one claim: first attempts of tasks that came from one span, in ascending order.
-- Those of one campaign overlap with no others. first_id never changes either.
create table taskq.bundle (
    session_id bigint not null,
    lease_id uuid not null,
    first_id bigint not null,
    campaign_id bigint not null,
    claimed_at timestamptz not null,
    tasks bigint[] not null,
    constraint bundle_pkey primary key (session_id, lease_id, first_id)
)
with (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.1,
    autovacuum_vacuum_threshold = 5000
);

create index bundle_task on taskq.bundle (campaign_id, first_id);

-- A task that is done has no row any more.
delete from taskq.task where status = 'done';

-- Where each task stands, wherever that is kept, for those who look: never for a statement that has to be
-- fast or to lock. A task that it has twice is damaged, and so is a spec that it has not.
create view taskq.state as
    select t.campaign_id, t.task_id, t.status, t.lease_id, t.session_id, t.claimed_at, t.due_at,
           t.attempt, t.failures, t.losses, t.avoids
      from taskq.task t
     union all
    select b.campaign_id, k.task_id, 'working', b.lease_id, b.session_id, b.claimed_at, null, 1, 0, 0, null
      from taskq.bundle b
     cross join lateral unnest(b.tasks) as k (task_id)
     union all
    select n.campaign_id, s.task_id, 'waiting', null, null, null, null, 0, 0, 0, null
      from taskq.span n
      join taskq.spec s
        on s.campaign_id = n.campaign_id
       and s.task_id between n.next_id and n.last_id
     union all
    select a.campaign_id, a.task_id, 'done', a.lease_id, a.session_id, a.claimed_at, null, l.attempt,
           l.failures, l.losses, null
      from taskq.attempt a
     cross join lateral (
           select max(l.attempt) as attempt,
                  min(l.attempt) filter (where l.outcome = 'done') as first_done,
                  count(*) filter (where l.outcome = 'failed') as failures,
                  count(*) filter (where l.outcome = 'lost'
                                      or l.outcome = 'done'
                                     and l.error_class in ('agent-lost', 'poison')) as losses
             from taskq.attempt l
            where l.campaign_id = a.campaign_id
              and l.task_id = a.task_id) l
     where a.outcome = 'done'
       and a.attempt = l.first_done
       and not exists (
           select from taskq.task t
            where t.campaign_id = a.campaign_id
              and t.task_id = a.task_id);
