-- Two more events that notification rules tell: a campaign that has become slow, a disk that is nearly full.
alter table taskq.notify_rule
    drop constraint notify_rule_events_known,
    add constraint notify_rule_events_known check (
        cardinality(events) between 1 and 10
        and events <@ array['finished', 'paused', 'no-agents', 'failing', 'slow', 'disk']);
