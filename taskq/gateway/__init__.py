r"""The gateway: the queue over HTTP, for agents that have no connection to PostgreSQL.

    agents --HTTPS--> server (uvicorn) --> fast_path --> service --> Batcher --> PostgreSQL
                                      \-> app (ASGI) -/        \-> HeartbeatBatcher, LongPoll,
                                                                   Enrolments, blobs

`service` does the work, without HTTP. `app` serves all requests by ASGI; `fast_path` serves the one
request of which there are thousands a second, the exchange, without ASGI. A gateway keeps state in
memory only, as caches: any number of gateways may serve one queue, and one that dies loses nothing.
"""
