-- @roles owner
insert into taskq.login_role (login, role)
values (%(login)s::oid, %(role)s)
on conflict do nothing
returning role
