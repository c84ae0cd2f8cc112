-- The login and the database of taskq, once, as the superuser.
create role taskq login password 'secret4';
create database taskq owner taskq;
