select version, functions from taskq.installation
