-- pickler: has agents unpickle functions that it sends by value, and their arguments; besides what a
-- submitter may do.
grant execute on function taskq.may_pickle to {login};
