"""Load generators: clients of PostgreSQL, and thousands of agents of gateways in few processes.

Each agent of a gateway has a connection, a session and a session token of its own, reports its last
tasks and claims more in one exchange, as agents do; it executes nothing. The agent's own encoder
writes its requests. The load shares the machine with the gateways, so each process is one epoll
loop: with TLS that takes less than half the time of asyncio.

clients       clients that report and claim at PostgreSQL, without a gateway
process_group processes that start together and end with a `with` block
runs          one measurement: agents at work before gateways for some seconds
agent_load    the processes, started and observed from their parent
work          the work of the agents, and their totals
shared_state  memory that the processes share with their parent
process       one of the processes
paces         the times of its agents' exchanges
agent         one agent: its next request, and its time
beats         the heartbeats of the agents of a process
connection    one connection, reopened when it is lost
messages      requests and answers as bytes
hostile       clients whose requests are expensive for the gateway
sessions      sessions for all agents, opened in one statement
"""
