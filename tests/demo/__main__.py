"""The walk: cluster → chart → service → answer → load → scale-out and a live cap change → quiet → scale-in.

Exit code 0 only when every promise of summary.py was kept. DEMO_KEEP=1 leaves the cluster up.
"""

import argparse
import asyncio
import itertools
import os
import pathlib
import sys
import time

from kubernetes.aio import config
from rich.console import Console

import lab
from demo import steps, summary
from demo.load import Load
from demo.table import LiveTable
from demo.traffic import Phase, read_prompts
from demo.watch import Watch

SUMMARY = pathlib.Path("build") / "demo.json"
# The burst's long answers outgrow the cache on however fast a machine: what runs together is preempted, and counted.
PHASES = (
    Phase("warm", rate=0.2, seconds=20),
    Phase("burst", rate=8, seconds=2, answer_tokens=192),
    Phase("pressure", rate=0.5, seconds=60),
)
QUIET_SECONDS = 240.0  # how long scale-in may take
SEED = 7


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m demo", description=__doc__)
    parser.add_argument("--down", action="store_true", help="remove what DEMO_KEEP=1 left")
    arguments = parser.parse_args()
    if arguments.down:
        _remove(lab.current())
        return 0
    console = Console(soft_wrap=True)
    try:
        return _run(console)
    except (steps.DemoError, lab.LabError) as fault:
        console.print(f"[bold red]The demo stopped:[/] {fault}", highlight=False)
        return 1


def _run(console: Console) -> int:
    timed = steps.Steps(console)
    with timed.step("cluster", "a Kubernetes with our images (minutes the first time, seconds after)"):
        cluster = lab.up()
    with timed.step("chart", f"helm install into namespace {steps.SYSTEM}"):
        steps.make_namespace(cluster, steps.NAMESPACE)
        steps.install_chart(cluster, namespace=steps.NAMESPACE)
    result = asyncio.run(_walk(cluster, console, timed))
    summary.write(result, SUMMARY)
    summary.show(result, console)
    broken = summary.broken_promises(result)
    for promise in broken:
        console.print(f"[bold red]not shown:[/] {promise}", highlight=False)
    _leave(cluster, console)
    console.print(f"Summary in {SUMMARY}")
    return 1 if broken else 0


def _remove(cluster: lab.Cluster | None) -> None:
    """The cluster, or of one that was there before only what the demo put into it."""
    if cluster is not None and cluster.source is lab.Source.EXISTING:
        steps.uninstall(cluster, steps.NAMESPACE)
    lab.down()


async def _walk(cluster: lab.Cluster, console: Console, timed: steps.Steps) -> dict[str, object]:
    api = await config.new_client_from_config(config_file=str(cluster.kubeconfig))
    async with api:
        with timed.step("service", f"kubectl apply of {steps.SERVICE} ({steps.MODEL}), wait until Ready"):
            steps.apply_service(cluster)
            await steps.wait_until_ready(api, steps.NAMESPACE, steps.SERVICE)
            url = await steps.serving_url(api, steps.NAMESPACE, steps.SERVICE)
        with timed.step("answer", steps.QUESTION):
            console.print(f"  {await steps.ask(url)}", highlight=False)
        watch = Watch(api, steps.NAMESPACE, steps.SERVICE)
        load = Load(url, steps.MODEL)
        async with asyncio.TaskGroup() as together:
            watching = together.create_task(watch.run())
            await _play(watch, load, console, timed)
            watching.cancel()
        return summary.summarise(watch.looks, load.tally, timed.seconds)


async def _play(watch: Watch, load: Load, console: Console, timed: steps.Steps) -> None:
    prompts = itertools.cycle(read_prompts())
    with LiveTable(console) as table:
        for seed, phase in enumerate(PHASES, SEED):
            with timed.step(phase.name, f"{phase.rate} requests/s for {phase.seconds:.0f} s"):
                await _show_until(load.play(phase, prompts, seed=seed), phase.name, watch, load, table)
        with timed.step("quiet", "no new requests: the backlog is served, then the replica is given up"):
            await _show_until(_settled(watch, load), "quiet", watch, load, table)


async def _settled(watch: Watch, load: Load) -> None:
    await load.finish()
    deadline = time.monotonic() + QUIET_SECONDS
    while time.monotonic() < deadline:
        last = watch.looks[-1] if watch.looks else None
        if last and last.replicas == 1 and last.ready == 1 and len(last.caps) <= 1:
            return
        await asyncio.sleep(1)


async def _show_until(work: object, phase: str, watch: Watch, load: Load, table: LiveTable) -> None:
    task = asyncio.ensure_future(work)  # type: ignore[arg-type]
    while not task.done():
        table.show(phase, watch.looks, load.tally)
        await asyncio.wait([task], timeout=0.5)
    await task


def _leave(cluster: lab.Cluster, console: Console) -> None:
    if os.environ.get("DEMO_KEEP") != "1":
        console.print("Removing what the demo made (DEMO_KEEP=1 keeps it)")
        _remove(cluster)
        return
    look = f"kubectl --kubeconfig {cluster.kubeconfig} -n {steps.NAMESPACE}"
    console.print("The cluster is up. Try:", highlight=False)
    for command in (f"{look} get kvis", f"{look} get kvis {steps.SERVICE} -o yaml", "make demo-down"):
        console.print(f"  {command}", highlight=False)


if __name__ == "__main__":
    sys.exit(main())
