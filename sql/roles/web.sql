-- web: shows pages, to those who have a manager's token; besides what a reader may do.
grant execute on function taskq.identify to {login};
