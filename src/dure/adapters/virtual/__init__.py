"""Virtual clusters: an API server of a tenant's own, whose pods run in the tenant's namespace of a host cluster.

`control_plane` runs the servers as processes, `syncer` carries objects down and status up, `keeper` has one of each
for every namespace that asks for it. What is carried how is pure: `translate` and `decide`.
"""
