"""Agents in thousands, in few processes: the load that a gateway is measured with.

Each agent has a connection, a session and a session token of its own, reports its last tasks and
claims more in one exchange, as agents do; it executes nothing. What it sends is what the agent's
own encoder writes. The load shares the machine with what it measures, so a process of agents is one
loop over epoll: with TLS that takes less than half the time of asyncio's.

runs        one measurement: a herd before gateways for some seconds
herd        the processes, started and watched from outside
work        what the agents do, and what they count
board       what the processes share with the one that has started them
process     one of the processes
paces       when its agents speak
agent       one agent: what it says next, and when
beats       the heartbeats of the agents of a process
connection  one connection: opened, spoken through, opened again
messages    requests and answers as bytes
hostile     clients that say what would be dear for the others
sessions    sessions for all of them, opened in one statement
"""
