-- checked_reports(reports): a JSON array of reports, whose text is checked before it becomes jsonb. A part of
-- exchange() and settle_many(), which take what gateways send without it, see is_gateway().
--
-- Error TQ400: a report has more than 288 KiB, of which 256 are for its result, is nested more than 100 deep,
--     or has a number that is too long, see json_fault().
create or replace function taskq.checked_reports(p_reports text)
returns jsonb
language plpgsql immutable parallel safe
as $$
declare
    v_fault text := taskq.json_fault(p_reports, 294912, 102);
begin
    -- Mostly there is one report. Several together may exceed the limit of one.
    if v_fault is not null then
        select min(f.fault) into v_fault
          from json_array_elements(p_reports::json) r
         cross join lateral taskq.json_fault(r::text, 294912, 101) f (fault);
    end if;
    if v_fault is not null then
        raise exception 'a report %', v_fault using errcode = 'TQ400';
    end if;
    return p_reports::jsonb;
end
$$;
