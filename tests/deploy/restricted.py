"""The restricted profile of Kubernetes' Pod Security Standards, rule by rule."""

from collections.abc import Callable, Iterator
from typing import Any

Pod = dict[str, Any]  # a pod's spec
VOLUMES = {
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
}
SYSCTLS = {
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_syncookies",
}
SELINUX = {"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"}
CONFINED = ("RuntimeDefault", "Localhost")


def containers(pod: Pod) -> Iterator[dict[str, Any]]:
    """Every container of a pod, of all three kinds."""
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        yield from pod.get(kind, [])


def context(part: dict[str, Any]) -> dict[str, Any]:
    """The security context of a pod or a container."""
    return dict(part.get("securityContext", {}))


def contexts(pod: Pod) -> list[dict[str, Any]]:
    """The security contexts of the pod and of each container."""
    return [context(pod), *map(context, containers(pod))]


def everywhere(pod: Pod, field: str) -> list[Any]:
    """What counts for each container: its own word, else the pod's."""
    return [context(each).get(field, context(pod).get(field)) for each in containers(pod)]


def capabilities(pod: Pod, change: str) -> list[set[str]]:
    """The capabilities that each container adds or drops."""
    return [set(context(c).get("capabilities", {}).get(change, [])) for c in containers(pod)]


def own_selinux(pod: Pod) -> bool:
    """Whether a type, user or role of SELinux is taken that is not for containers."""
    options = [each.get("seLinuxOptions", {}) for each in contexts(pod)]
    return any(
        each.get("type", "") not in SELINUX or each.get("user") or each.get("role")
        for each in options
    )


def sources(pod: Pod) -> set[str]:
    """The kinds of volume that a pod mounts."""
    return {kind for volume in pod.get("volumes", []) for kind in volume if kind != "name"}


def handlers(pod: Pod) -> Iterator[dict[str, Any]]:
    """Every probe and hook that may name a host."""
    for each in containers(pod):
        yield from (each.get(f"{name}Probe", {}) for name in ("startup", "liveness", "readiness"))
        yield from each.get("lifecycle", {}).values()


# Each rule says whether a pod breaks it; the names are the headings of the standard.
RULES: dict[str, Callable[[Pod], bool]] = {
    "Host namespaces": lambda pod: any(
        pod.get(each) for each in ("hostNetwork", "hostPID", "hostIPC")
    ),
    "Host ports": lambda pod: any(
        port.get("hostPort") for c in containers(pod) for port in c.get("ports", [])
    ),
    "Host probes": lambda pod: any(
        each.get(kind, {}).get("host")
        for each in handlers(pod)
        for kind in ("httpGet", "tcpSocket")
    ),
    "HostProcess": lambda pod: any(
        each.get("windowsOptions", {}).get("hostProcess") for each in contexts(pod)
    ),
    "Privileged containers": lambda pod: any(each.get("privileged") for each in contexts(pod)),
    "Privilege escalation": lambda pod: any(
        context(c).get("allowPrivilegeEscalation") is not False for c in containers(pod)
    ),
    "Capabilities dropped": lambda pod: any("ALL" not in c for c in capabilities(pod, "drop")),
    "Capabilities added": lambda pod: any(
        c - {"NET_BIND_SERVICE"} for c in capabilities(pod, "add")
    ),
    "Running as non-root": lambda pod: any(
        each is not True for each in everywhere(pod, "runAsNonRoot")
    ),
    "Running as non-root user": lambda pod: any(
        each.get("runAsUser") == 0 for each in contexts(pod)
    ),
    "Seccomp": lambda pod: any(
        (each or {}).get("type") not in CONFINED for each in everywhere(pod, "seccompProfile")
    ),
    "AppArmor": lambda pod: any(
        each.get("appArmorProfile", {}).get("type", "RuntimeDefault") not in CONFINED
        for each in contexts(pod)
    ),
    "SELinux": own_selinux,
    "/proc mount type": lambda pod: any(
        each.get("procMount", "Default") != "Default" for each in contexts(pod)
    ),
    "Sysctls": lambda pod: bool({s["name"] for s in context(pod).get("sysctls", [])} - SYSCTLS),
    "Volume types": lambda pod: bool(sources(pod) - VOLUMES),
}


def broken(pod: Pod) -> set[str]:
    """Name the rules that a pod breaks."""
    return {name for name, breaks in RULES.items() if breaks(pod)}
