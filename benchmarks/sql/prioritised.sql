-- Whether any task has a row of its own with another priority than it was seeded with.
select exists (select from taskq.task t where t.priority > 0) as prioritised
