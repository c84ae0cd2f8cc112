-- @roles owner
create database {database}
