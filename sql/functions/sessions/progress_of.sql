-- progress_of(campaign, task, lease): how far the attempt under a lease is, as it reports; nulls: it does
-- not, or this is a standby, which has no such table. A part of tasks() and find_tasks(), which pin the
-- settings; not for clients. Index: progress_pkey.
create or replace function taskq.progress_of(
    p_campaign bigint,
    p_task bigint,
    p_lease uuid,
    out fraction double precision,
    out note text
)
language plpgsql stable
as $$
begin
    if not pg_is_in_recovery() then
        select p.fraction, nullif(p.note, '') into fraction, note
          from taskq.progress p
         where p.campaign_id = p_campaign
           and p.task_id = p_task
           and p.lease_id = p_lease;
    end if;
end
$$;
