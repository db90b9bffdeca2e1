"""The process in front of Kueue: the Quota API and the Job Submission Gateway.

`view` turns watches into a situation, `desk` decides and acts, `mover` looks again at what waits,
`journal` remembers, `app` speaks HTTP.
"""
