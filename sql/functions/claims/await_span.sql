-- await_span(campaign, before): waits a moment for a span of a campaign all of whose spans are locked. A part
-- of pick(), which calls it only while it holds no span: so no two callers wait for each other.
--
-- before: see pick(). Result: whether a span can be had now.
create or replace function taskq.await_span(p_campaign bigint, p_before integer)
returns boolean
language plpgsql
as $$
declare
    v_timeout constant text := current_setting('lock_timeout');
    v_span bigint;
begin
    if not exists (
        select from taskq.span s
         where s.campaign_id = p_campaign
           and s.status = 'waiting'
           and (-s.priority) < coalesce(p_before, 32768)
           and s.next_id <= s.last_id)
    then
        return false;
    end if;
    begin
        perform set_config('lock_timeout', '25ms', true);
        select s.first_id into v_span
          from taskq.span s
         where s.campaign_id = p_campaign
           and s.status = 'waiting'
           and (-s.priority) < coalesce(p_before, 32768)
           and s.next_id <= s.last_id
         order by s.campaign_id, (-s.priority), s.first_id
         limit 1
           for no key update;
        perform set_config('lock_timeout', v_timeout, true);
        return v_span is not null;
    exception
        when lock_not_available then
            return false;
    end;
end
$$;
