"""The kinds that the operator reads and writes, and where the API server keeps them.

One table, so that watches, lists, writes and the access rules (`access.py`) cannot disagree about a path.
Not here: what the objects contain.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind of the Kubernetes API; `group` is empty for the core group."""

    group: str
    version: str
    kind: str
    plural: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(
        self, namespace: str | None = None, name: str | None = None, subresource: str | None = None
    ) -> str:
        """The URL path of a collection, an object or a subresource; no `namespace`: of all."""
        parts = [f"/apis/{self.api_version}" if self.group else f"/api/{self.api_version}"]
        if namespace is not None:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        parts += [part for part in (name, subresource) if part is not None]
        return "/".join(parts)


SERVICES = Resource("kvis.dev", "v1alpha1", "KVInferenceService", "kvinferenceservices")
DEPLOYMENTS = Resource("apps", "v1", "Deployment", "deployments")
CORE_SERVICES = Resource("", "v1", "Service", "services")
CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps")
BUDGETS = Resource("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")
NETWORK_POLICIES = Resource("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies")
PODS = Resource("", "v1", "Pod", "pods")
AUTOSCALERS = Resource("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers")
LEASES = Resource("coordination.k8s.io", "v1", "Lease", "leases")
EVENTS = Resource("events.k8s.io", "v1", "Event", "events")

CHILDREN = (DEPLOYMENTS, CORE_SERVICES, CONFIG_MAPS, BUDGETS, NETWORK_POLICIES)
"""What a service is rendered into; each carries our labels and an owner reference."""

WATCHED = (SERVICES, *CHILDREN, PODS, AUTOSCALERS)


def child_resource(kind: str) -> Resource:
    """The resource of a child's kind; KeyError for a kind that the operator has no right to touch."""
    return {resource.kind: resource for resource in CHILDREN}[kind]
