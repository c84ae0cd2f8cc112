-- @roles owner
delete from taskq.login_role where login = %(login)s::oid and role = %(role)s returning role
