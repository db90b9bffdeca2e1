"""The DCGM exporter on every NVIDIA node, its Service and its ServiceMonitor with the workloads' own labels kept."""

from __future__ import annotations

from dure.manifest.document import Json
from dure.manifest.render.setting import MONITORING, Setting, made

NAME = "dcgm-exporter"
IMAGE = "nvcr.io/nvidia/k8s/dcgm-exporter:4.5.3-4.8.2-distroless"
_LABELS = {"app.kubernetes.io/name": NAME}
_PORT = 9400


def exporter_objects(setting: Setting) -> list[Json]:
    if not setting.has_nvidia:
        return []
    return [
        made("v1", "Namespace", MONITORING),
        made("v1", "ServiceAccount", NAME, MONITORING, _LABELS),
        daemon_set(),
        service(),
        service_monitor(setting),
    ]


def daemon_set() -> Json:
    environment = {
        "DCGM_EXPORTER_LISTEN": f":{_PORT}",
        "DCGM_EXPORTER_KUBERNETES": "true",
        "DCGM_EXPORTER_INTERVAL": "5000",
    }
    container = {
        "name": NAME,
        "image": IMAGE,
        "env": [{"name": name, "value": value} for name, value in environment.items()],
        "ports": [{"name": "metrics", "containerPort": _PORT}],
        "readinessProbe": {"httpGet": {"path": "/health", "port": _PORT}, "initialDelaySeconds": 15},
        "resources": {"requests": {"cpu": "50m", "memory": "256Mi"}, "limits": {"memory": "512Mi"}},
        "securityContext": {
            "runAsUser": 0,
            "allowPrivilegeEscalation": False,
            # Profiling fields need it; nothing else is left.
            "capabilities": {"drop": ["ALL"], "add": ["SYS_ADMIN"]},
        },
        "volumeMounts": [{"name": "pod-resources", "mountPath": "/var/lib/kubelet/pod-resources", "readOnly": True}],
    }
    pod = {
        "serviceAccountName": NAME,
        "priorityClassName": "system-node-critical",
        "nodeSelector": {"nvidia.com/gpu.present": "true"},
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
        "volumes": [{"name": "pod-resources", "hostPath": {"path": "/var/lib/kubelet/pod-resources"}}],
    }
    spec = {
        "selector": {"matchLabels": _LABELS},
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}},
        "template": {"metadata": {"labels": _LABELS}, "spec": pod},
    }
    return made("apps/v1", "DaemonSet", NAME, MONITORING, _LABELS, spec=spec)


def service() -> Json:
    spec = {
        "clusterIP": "None",
        "selector": _LABELS,
        "ports": [{"name": "metrics", "port": _PORT, "targetPort": "metrics"}],
    }
    return made("v1", "Service", NAME, MONITORING, _LABELS, spec=spec)


def service_monitor(setting: Setting) -> Json:
    endpoint = {"port": "metrics", "path": "/metrics", "interval": "10s", "scrapeTimeout": "8s", "honorLabels": True}
    labels = {**_LABELS, "release": setting.release}
    spec = {"selector": {"matchLabels": _LABELS}, "endpoints": [endpoint]}
    return made("monitoring.coreos.com/v1", "ServiceMonitor", NAME, MONITORING, labels, spec=spec)
