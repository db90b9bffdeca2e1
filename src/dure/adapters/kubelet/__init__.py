"""The kubelet's plugin interfaces: device plugins (v1beta1), plugin registration and DRA (v1).

`wire` writes and reads protobuf, `device_plugin` and `dra` are the messages, `service` puts handlers behind a socket.
"""
