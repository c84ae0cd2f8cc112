-- What gateways and agents next to the database read.
grant select on taskq.installation, taskq.campaign, taskq.recipe, taskq.blob, taskq.blob_part to {login};
