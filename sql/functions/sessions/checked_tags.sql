-- checked_tags(what, tags): the tags of a campaign or an agent, checked. what: 'requires' or 'offers'.
-- Error TQ400: one is not well formed, or there are more than 32; the same rules stand in
-- taskq/model/tags.py, which says more.
create or replace function taskq.checked_tags(p_what text, p_tags text[])
returns text[]
language plpgsql immutable
as $$
declare
    v_name constant text := '[A-Za-z][A-Za-z0-9_.-]{0,62}';
    v_value constant text := '[A-Za-z0-9_.+:/@-]{1,100}';
    v_number constant text := '[+-]?[0-9]{1,15}([.][0-9]{1,15})?';
    v_form constant text := format(
        case p_what when 'requires' then '^%1$s(=%2$s|>=%3$s)?$' else '^%1$s(=%2$s)?$' end,
        v_name, v_value, v_number);
    v_tag text;
begin
    if cardinality(p_tags) > 32 then
        raise exception '%: % tags; 32 at most', p_what, cardinality(p_tags)
            using errcode = 'TQ400';
    end if;
    foreach v_tag in array p_tags loop
        if v_tag is null or v_tag !~ v_form then
            raise exception '%: the tag % is not well formed',
                p_what, quote_nullable(left(v_tag, 80)) using errcode = 'TQ400';
        end if;
    end loop;
    return p_tags;
end
$$;
