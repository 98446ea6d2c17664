"""Everything the operator may do in a cluster: one row per rule, with the reason.

The chart's role is generated from this table and a test compares the two; another compares it with the
audit log: nothing granted is unused and nothing used is ungranted. There is no Secret, no wildcard, no
write to roles, no exec, and no write to anything of a resource but its status and its `replicas`.
"""

from dataclasses import dataclass

from kvis_operator.cluster import resources as r


@dataclass(frozen=True, slots=True)
class Rule:
    """One RBAC rule. `own_namespace` rules are needed only where the operator itself runs."""

    group: str
    resource: str  # plural, with "/subresource" where one is meant
    verbs: tuple[str, ...]
    why: str
    own_namespace: bool = False


READ = ("list", "watch")
OWN = ("get", "list", "watch", "create", "patch", "delete")

RULES: tuple[Rule, ...] = (
    Rule(r.SERVICES.group, r.SERVICES.plural, READ, "The resources to serve"),
    Rule(
        r.SERVICES.group,
        f"{r.SERVICES.plural}/status",
        ("patch",),
        "To report conditions, plan and decisions",
    ),
    Rule(
        r.SERVICES.group, f"{r.SERVICES.plural}/scale", ("patch",), "To write the decided number of replicas"
    ),
    Rule(r.DEPLOYMENTS.group, r.DEPLOYMENTS.plural, OWN, "Children: the model servers"),
    Rule(r.CORE_SERVICES.group, r.CORE_SERVICES.plural, OWN, "Children: the address that clients use"),
    Rule(
        r.CONFIG_MAPS.group,
        r.CONFIG_MAPS.plural,
        OWN,
        "Children: the public key that the pods' admin port trusts",
    ),
    Rule(
        r.NETWORK_POLICIES.group, r.NETWORK_POLICIES.plural, OWN, "Children: who reaches the pods' admin port"
    ),
    Rule(r.BUDGETS.group, r.BUDGETS.plural, OWN, "Children: limits of voluntary disruption"),
    Rule(
        r.PODS.group,
        r.PODS.plural,
        (*READ, "patch"),
        "State of the servers; patch marks whom a scale-in takes",
    ),
    Rule(
        r.AUTOSCALERS.group,
        r.AUTOSCALERS.plural,
        READ,
        "To yield to an autoscaler that someone else has set up",
    ),
    Rule(r.EVENTS.group, r.EVENTS.plural, ("create",), "To tell people what was decided and why"),
    Rule(
        r.LEASES.group,
        r.LEASES.plural,
        ("get", "create", "update"),
        "To be the only operator that acts",
        own_namespace=True,
    ),
)


def role_rules(*, own_namespace: bool) -> list[dict[str, list[str]]]:
    """The rules as a ClusterRole (`own_namespace=False`) or the operator namespace's Role has them."""
    return [
        {"apiGroups": [rule.group], "resources": [rule.resource], "verbs": list(rule.verbs)}
        for rule in RULES
        if rule.own_namespace is own_namespace
    ]
