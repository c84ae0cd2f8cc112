"""HTTP/1.1 for the gateway and the pages: what a client may send and cost, and how it is answered.

    listener --> handshakes (TLS) --> connection (llhttp, framing) --> request --> the application

The application gets each request by one call. It answers at once, from a callback, or from a task.
Nothing here knows of tasks, agents or PostgreSQL.
"""
