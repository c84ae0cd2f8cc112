-- filter_path(filter, at, depth): the jsonpath predicate of a filter. find_tasks() passes the filter itself
-- as its variable f.
--
-- filter: ["and", FILTER ...], ["or", FILTER ...], ["not", FILTER], or a comparison: [OPERATOR, [NAME ...], VALUE
--     ...], where OPERATOR is one of = < <= > >= ~ and the names lead to a field; = is true for one of several
--     values. at: where the filter stands in f. depth: how deep.
-- Error TQ400: it is not a filter, has more than 128 KiB, 100 comparisons or 20 with ~, or is nested
--     more than 50 deep.
--
-- Each comparison becomes `exists(FIELD ? (@ == VALUES))`, which is true or false whatever the field holds
-- and also without a field: so `not` means what it says. Names and pieces of text reach the path as string
-- literals, values as parts of f. like_regex with the flag q takes its text literally. So no filter walks
-- through other fields, compares two fields, or has a regular expression: with each of these a short text
-- could take hours.
create or replace function taskq.filter_path(p_filter jsonb, p_at text default '$f', p_depth integer default 0)
returns text
language plpgsql immutable
as $$
declare
    v_operator constant text := case jsonb_typeof(p_filter) when 'array' then p_filter ->> 0 end;
    v_terms text[];
    v_field text;
begin
    if p_depth = 0 then
        if pg_column_size(p_filter) > 131072 then
            raise exception 'a filter has at most 128 KiB' using errcode = 'TQ400';
        end if;
        if (select count(*) > 100 or count(*) filter (where o.one = '"~"') > 20
              from jsonb_path_query(p_filter, 'strict $.**[0] ? (@ == "=" || @ == "<" || @ == "<=" || @ == ">"
                       || @ == ">=" || @ == "~")', '{}', true) as o (one)) then
            raise exception 'a filter has at most 100 comparisons, 20 of them with ~' using errcode = 'TQ400';
        end if;
    elsif p_depth > 50 then
        raise exception 'a filter is nested at most 50 deep' using errcode = 'TQ400';
    end if;
    if v_operator in ('and', 'or', 'not') then
        select array_agg(taskq.filter_path(t.term, format('%s[%s]', p_at, t.n - 1), p_depth + 1) order by t.n)
          into v_terms
          from jsonb_array_elements(p_filter) with ordinality as t (term, n)
         where t.n > 1;
        if (v_operator = 'not' and cardinality(v_terms) = 1)
           or (v_operator = 'or' and v_terms is not null)
           or v_operator = 'and' then
            return case v_operator
                when 'not' then '!(' || v_terms[1] || ')'
                when 'or' then '(' || array_to_string(v_terms, ') || (') || ')'
                else coalesce('(' || array_to_string(v_terms, ') && (') || ')', '1 == 1')
            end;
        end if;
    end if;
    if jsonb_typeof(p_filter -> 1) = 'array' then
        select '$' || string_agg('.' || to_json(f.name)::text, '' order by f.n)
          into v_field
          from jsonb_array_elements_text(p_filter -> 1) with ordinality as f (name, n);
    end if;
    if v_field is null or v_operator is null or v_operator not in ('=', '<', '<=', '>', '>=', '~') then
        raise exception 'this is not a filter: see filter_path() for the form' using errcode = 'TQ400';
    end if;
    return case
        when v_operator = '~' then format('exists(%s ? (@ like_regex %s flag "q"))', v_field, to_json(p_filter ->> 2))
        when jsonb_typeof(p_filter -> 2) = 'null' then format('!exists(%s.type() ? (@ != "null"))', v_field)
        else format('exists(%s ? (@ %s %s[2 to last]))', v_field,
                    case v_operator when '=' then '==' else v_operator end, p_at)
    end;
end
$$;
