create database {database}
