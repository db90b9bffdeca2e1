"""The REST API: Litestar routes over a `Backend`, security, server-sent events, metrics, the server itself.

`app` puts it together, `backend` is all it needs from Dure, `problems` is the one place where errors become answers.
"""
