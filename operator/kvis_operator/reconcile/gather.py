"""Gathering what one pass looks at: from the view, and once per tick from the pods' own metrics.

Passes between ticks, woken by events, see the last observation: they carry out what was decided and never
decide on half an interval.
"""

from dataclasses import dataclass

from kvis_operator.cluster.resources import CHILDREN, DEPLOYMENTS, PODS, SERVICES
from kvis_operator.observe.cluster import Body, key_of
from kvis_operator.observe.pods import endpoint, pod_state
from kvis_operator.reconcile.intake import Accepted, Subject, read
from kvis_operator.reconcile.world import Memory, World
from kvis_operator.signals import golden
from kvis_operator.signals.observation import PodPhase

DEFAULT_START_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Scene:
    now: float  # Unix seconds
    steady: float  # monotonic seconds
    service: Body
    subject: Subject
    children: tuple[Body, ...]
    pods: tuple[Body, ...]
    autoscalers: tuple[str, ...]  # that target the service
    child_autoscalers: tuple[str, ...]  # that target its Deployment
    is_tick: bool

    @property
    def name(self) -> str:
        name: str = self.service["metadata"]["name"]
        return name

    @property
    def namespace(self) -> str:
        namespace: str = self.service["metadata"]["namespace"]
        return namespace

    @property
    def uid(self) -> str:
        uid: str = self.service["metadata"]["uid"]
        return uid

    @property
    def generation(self) -> int:
        generation: int = self.service["metadata"].get("generation") or 0
        return generation

    @property
    def replicas_field(self) -> int | None:
        replicas: int | None = self.service["spec"].get("replicas")
        return replicas

    @property
    def deployment(self) -> Body | None:
        return next((c for c in self.children if c["kind"] == DEPLOYMENTS.kind), None)

    @property
    def staying_pods(self) -> tuple[Body, ...]:
        """Pods that nobody has begun to stop."""
        return tuple(p for p in self.pods if not p["metadata"].get("deletionTimestamp"))


async def gather(world: World, service: Body, memory: Memory) -> Scene:
    now = world.now()
    scene = _scene(world, service, memory, now)
    if scene.is_tick:
        await _observe(world, scene, memory)
    return scene


def _scene(world: World, service: Body, memory: Memory, now: float) -> Scene:
    steady, metadata = world.steady(), service["metadata"]
    namespace, name = metadata["namespace"], metadata["name"]
    view, key = world.view, key_of(service)
    children = [
        child
        for resource in CHILDREN
        for child in (
            *view.owned(resource.kind, metadata["uid"]),
            *_unowned(view.of_service(resource.kind, key), metadata["uid"]),
        )
    ]
    return Scene(
        now=now,
        steady=steady,
        service=service,
        subject=read(service, world.profiles),
        children=tuple(children),
        pods=tuple(view.of_service(PODS.kind, key)),
        autoscalers=tuple(view.autoscalers_of(namespace, SERVICES.kind, name)),
        child_autoscalers=tuple(view.autoscalers_of(namespace, DEPLOYMENTS.kind, name)),
        is_tick=memory.wishes != wishes(service) or steady >= memory.next_tick_at,
    )


def wishes(service: Body) -> Body:
    """The spec without the field that scaling itself writes: a change of it is decided on at once."""
    return {name: value for name, value in service["spec"].items() if name != "replicas"}


def _unowned(found: list[Body], owner_uid: str) -> list[Body]:
    """Objects under our label that the service does not control: a predecessor's, or somebody's own."""
    return [
        item
        for item in found
        if not any(o["uid"] == owner_uid for o in item["metadata"].get("ownerReferences") or ())
    ]


async def _observe(world: World, scene: Scene, memory: Memory) -> None:
    """Scrape, record, and put the observation and the next tick into the memory."""
    states = [pod_state(pod) for pod in scene.pods]
    serving = {s.uid for s in states if s.phase in (PodPhase.READY, PodPhase.DRAINING)}
    endpoints = [e for e in map(endpoint, scene.pods) if e is not None and e.uid in serving]
    for uid, sample in (await world.scraper.scrape(endpoints)).items():
        memory.fleet.record(uid, sample)
    alive = {state.uid for state in states}
    memory.fleet.forget(alive)
    memory.caps = {uid: state for uid, state in memory.caps.items() if uid in alive}
    subject = scene.subject
    start_seconds = subject.profile.start_seconds if isinstance(subject, Accepted) else DEFAULT_START_SECONDS
    memory.observation = golden.observe(
        states, memory.fleet, now=world.now(), interval=world.times.tick, start_seconds=start_seconds
    )
    memory.bands = memory.bands.updated(memory.observation, seconds=world.times.tick)
    memory.wishes = wishes(scene.service)
    memory.next_tick_at = scene.steady + world.times.tick
