r"""The gateway: the queue over HTTP, for agents that have no connection to PostgreSQL.

    agents --HTTPS--> server (uvicorn) --> fast_path --> service --> Batcher --> PostgreSQL
                                      \-> app (ASGI) -/        \-> HeartbeatBatcher, LongPoll,
                                                                   Enrolments, blobs

`service` does the work, without HTTP. `app` serves all requests by ASGI; `fast_path` serves
exchanges, of which there are thousands a second, without ASGI. A gateway keeps only caches in
memory: any number of gateways may serve one queue, and a gateway that dies loses nothing.
"""
