-- begin_act(path, verb, what): says by which command tasks at and below a campaign are moved next: what cancel(), retry()
-- and prioritise() move for the same caller adds to it, as long as no minute passes between them. Without it each
-- campaign has an act of its own, without the command.
--
-- verb: cancel, retry or prioritise. what: the command in short, such as its filter; see note_act().
-- Error TQ400: another verb. Error TQ404: no such campaign.
--
-- Moves no task. Locks: see note_act(). Index: campaign_path_key, act_path.
-- @roles manager operator
-- @gateway manager
-- @repeat safe
-- @act cancel retry prioritise
create or replace function taskq.begin_act(p_path text, p_verb text, p_what text[])
returns void
language plpgsql
as $$
begin
    if (p_verb in ('cancel', 'retry', 'prioritise')) is not true then
        raise exception 'an act that moves tasks is cancel, retry or prioritise' using errcode = 'TQ400';
    end if;
    perform taskq.campaign_id(p_path);
    perform taskq.note_act(p_path, p_verb, coalesce(p_what, '{}'));
end
$$;
