-- begin_retention(campaign): begins to remove a campaign whose time has come, with all below it, if it is still as
-- look_at_retention() saw it: all has ended, nothing was opened, seeded or restored since, and it is archived if that is
-- wanted. A part of retain(); not for clients.
--
-- Result: whether it began; otherwise the date is looked for anew. Error TQ409: see set_status().
--
-- Locks: as begin_archive() does, so seeds, retries and late results come before or see it.
-- @plan generic by-key
create or replace function taskq.begin_retention(p_campaign bigint)
returns boolean
language plpgsql
as $$
declare
    v_one taskq.campaign;
    v_due taskq.retention;
    v_campaign bigint;
    v_counts record;
    v_keep double precision;
    v_archive_first boolean;
begin
    select c.* into v_one from taskq.campaign c where c.campaign_id = p_campaign;
    for v_campaign in select c.campaign_id from taskq.subtree(v_one.path) c order by c.campaign_id loop
        perform pg_advisory_xact_lock(hashtext('taskq.seed'), hashint8(v_campaign));
        perform from taskq.campaign c where c.campaign_id = v_campaign for update;
    end loop;
    select r.* into v_due from taskq.retention r where r.campaign_id = p_campaign for update;
    select max(c.keep) into v_keep
      from taskq.campaign c
     where c.campaign_id in (select s.campaign_id from taskq.subtree(v_one.path) s)
        or c.campaign_id = v_one.parent_id and v_one.keep is null;
    v_archive_first := exists (
        select
          from taskq.campaign c
         where c.archive_first
           and (c.campaign_id = any (v_one.lineage)
                or c.campaign_id in (select s.campaign_id from taskq.subtree(v_one.path) s)));
    select n.waiting + n.delayed + n.working as unfinished, n.done, n.failed, n.failures + n.losses as failures
      into v_counts
      from taskq.counts(v_one.path, 0) n;
    if v_due.due_at <= clock_timestamp()
       and v_keep is not null
       and v_due.ended_at + make_interval(secs => v_keep) <= clock_timestamp()
       and v_counts.unfinished = 0
       and v_due.seen = (
           select format('%s %s %s', v_counts.done + coalesce(sum(m.done), 0),
                         v_counts.failed + coalesce(sum(m.failed), 0), v_counts.failures + coalesce(sum(m.failures), 0))
             from taskq.removed_sum m
            where m.campaign_id in (select s.campaign_id from taskq.subtree(v_one.path) s))
       and not exists (
           select
             from taskq.retention r
            where r.reopened_at > v_due.ended_at
              and (r.campaign_id = any (v_one.lineage)
                   or r.campaign_id in (select s.campaign_id from taskq.subtree(v_one.path) s)))
       and not exists (
           select
             from taskq.subtree(v_one.path) s
            where s.seeded_at > v_due.ended_at
               or s.status = 'archived' and s.campaign_id <> p_campaign
               or exists (select from taskq.archive a where a.campaign_id = s.campaign_id and a.restoring is not null))
       and (not v_archive_first
            or exists (
                select
                  from taskq.archive a
                 where a.campaign_id = p_campaign
                   and v_one.status = 'archived'
                   and a.digest is not null))
    then
        perform taskq.begin_stone(v_one.path, 'retention', true);
        return true;
    end if;
    update taskq.retention r
       set due_at = greatest(r.due_at, clock_timestamp()) + interval '1 hour'
     where r.campaign_id = p_campaign;
    return false;
end
$$;
