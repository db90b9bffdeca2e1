"""The node daemon: runs `share` on a real device, several models in one place, each tenant in its own process.

`executor` is the loop, `lane` one tenant's process, `server` the unix socket and HTTP door, `config` the file.
"""
