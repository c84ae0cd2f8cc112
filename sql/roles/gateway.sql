-- What gateways read in addition to what serves tasks.
grant select (session_id, ended_at) on taskq.session to {login};
grant select on taskq.brake to {login};
