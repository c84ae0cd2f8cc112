-- Whether the accepted result of a task was reported by an agent with a connection of its own, on a server where no
-- other login may report. A session that a token has opened belongs to a gateway's agent. A login with a role could
-- report in the name of any session, so none may be there; see own_results() in taskq/compute/trust.py.
-- attempt: whose result was read; by now another one may be accepted. Null: not known.
-- Index: attempt_pkey, session_pkey.
-- @roles owner
select not exists (select from taskq.login_role)
       and exists (
           select
             from taskq.accepted_of(%(campaign)s, %(task)s) a
            cross join lateral taskq.session_of(a.session_id) n
            where n.token_id is null
              and a.attempt = coalesce(%(attempt)s::integer, a.attempt)) as own
