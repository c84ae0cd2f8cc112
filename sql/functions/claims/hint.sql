-- hint(part): where a part of a position hint stands in its array; not for clients. The planner puts the number in its
-- place, so that a name costs nothing. An unknown name raises an error.
--
-- A claimed task leaves a dead entry in the index, and as long as any snapshot in the cluster can see the old row,
-- each claim would walk over all these entries. So the position behind the last claim is kept as a hint, for each
-- connection and campaign, in a setting; it serves any client that uses the connection next, and losing it does no
-- harm. A task that comes to wait with a row (it was handed back, or got a higher priority) is found once the hint is
-- dropped: if nothing is found behind it, or after fifty times what the last walk without a hint took, so that such
-- walks cost 2 %; that is half a second at least and 5 s at most.
--
-- row_rank, row: rank (-priority) and task of the last row.
-- until: when it expires, in microseconds; negative: since when a new hint is looked for.
-- again: 1 if pick_again() is to look with the next claim, else 0.
-- span_rank, span: rank and first id of the last span.
-- clear_to: no row comes before the tasks of that span that are below this one; null: usual_position() has not looked.
create or replace function taskq.hint(p_part text)
returns integer
language plpgsql immutable
as $$
begin
    case p_part
        when 'row_rank' then return 1;
        when 'row' then return 2;
        when 'until' then return 3;
        when 'again' then return 4;
        when 'span_rank' then return 5;
        when 'span' then return 6;
        when 'clear_to' then return 7;
    end case;
end
$$;
