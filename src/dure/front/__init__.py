"""The serving front: a small reverse proxy for OpenAI-style services.

Pure are `choose` (which backend, which order), `carry` (how an answer goes on elsewhere) and `events`. `proxy` is the
asyncio process, `leg` a request's stay on one backend, `carrier` takes it from one to the next; `gateway` renders the
policy as Gateway API inference-extension resources for real clusters.
"""
