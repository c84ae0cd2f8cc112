-- note_token(paths, what): notes an act on a token at each campaign that it is for, so that those who see one see what was
-- done there and nothing of the others; of more than 20 at the root. A part of create_token() and revoke_token(), called
-- last; not for clients.
--
-- Locks: see note_act(). Index: act_path.
create or replace function taskq.note_token(p_paths text[], p_what text[])
returns void
language plpgsql
as $$
declare
    v_most constant integer := 20;
begin
    perform taskq.note_act(p.path, 'token', p_what)
       from (select distinct o.path
               from unnest(case when cardinality(p_paths) > v_most then array['/'] else p_paths end) as o (path)) p;
end
$$;
