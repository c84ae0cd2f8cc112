select c.task_id as task, l.lease
  from (select gen_random_uuid() as lease) l
 cross join lateral taskq.claim('/bench', :session, l.lease, 1) c \gset
select taskq.complete('/bench', :task, :lease, '{"score": -9.1}');
