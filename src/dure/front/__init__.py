"""The serving front: a small reverse proxy for OpenAI-style services.

`choose` is the pure part (which backend, which order), `proxy` the asyncio process, `gateway` renders the same
policy as Gateway API inference-extension resources for real clusters.
"""
