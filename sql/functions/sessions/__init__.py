"""Sessions: agents: hellos, heartbeats, ends, bans of hosts and sites."""
