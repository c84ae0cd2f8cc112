select by_owner from taskq.sharing
