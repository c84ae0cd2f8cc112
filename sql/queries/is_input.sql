-- Whether a campaign at or below a path has an input with this digest.
select exists (
           select
             from taskq.subtree(%(path)s) c
            where jsonb_path_exists(
                      c.inputs, '$.*.digest ? (@ == $digest)',
                      jsonb_build_object('digest', %(digest)s::text))) as is_input
