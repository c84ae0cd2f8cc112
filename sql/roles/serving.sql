-- What agents next to the database read, and gateways.
grant select on taskq.installation, taskq.campaign, taskq.blob, taskq.blob_part to {login};
