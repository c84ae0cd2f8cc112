-- note_change(campaign, what): notes who has just changed what of a campaign: the names of settings, `input NAME`, or
-- `status`. A part of change_campaign(), set_status(), put_input() and drop_input(), which hold the campaign's row; not
-- for clients. What one transaction changes is noted together, 20 names at most.
--
-- Locks: the row of `refused`. Index: refused_pkey.
create or replace function taskq.note_change(p_campaign bigint, p_what text[])
returns void
language sql
as $$
    insert into taskq.refused as r (campaign_id, changed_at, changed_by, what)
    values (p_campaign, transaction_timestamp(), coalesce(taskq.token_setting('token_name'), session_user), p_what[:20])
        on conflict (campaign_id) do update
       set changed_at = excluded.changed_at,
           changed_by = excluded.changed_by,
           what = case when r.changed_at = excluded.changed_at
                       then array(select distinct w.name from unnest(r.what || excluded.what) as w (name)
                                   order by w.name limit 20)
                       else excluded.what end
$$;
