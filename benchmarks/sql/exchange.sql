\if :task = 0
select x.tasks -> 0 ->> 0 as lease, x.tasks -> 0 ->> 1 as task
  from taskq.exchange(
      :campaign::bigint, null, array[:session::bigint], array[gen_random_uuid()], '{1}') x \gset
\endif
select x.tasks -> 0 ->> 0 as lease, x.tasks -> 0 ->> 1 as task
  from taskq.exchange_one(
      :campaign::bigint,
      jsonb_build_array(jsonb_build_object(
          'task', :task::bigint, 'lease', :lease::text, 'by', :session::bigint, 'outcome', 'done',
          'result', '{"score": -9.1}'::jsonb))::text,
      :session::bigint, gen_random_uuid()) x \gset
