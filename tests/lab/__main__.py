"""`python -m lab`: bring a cluster up or down, or look at it."""

from __future__ import annotations

import argparse
import asyncio
import shlex
import sys
from collections.abc import Sequence

import lab

from . import wheels
from .progress import LabError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; 1 when it failed, with the reason on standard error."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="lab", description="A Kubernetes cluster for tests and the demo.")
    commands = parser.add_subparsers(required=True)
    up = commands.add_parser("up", help="bring a cluster up, or make sure that it is")
    up.add_argument("--control-plane-only", action="store_true", help="no node: pods run on a fake node only")
    up.add_argument(
        "--no-images", action="store_true", help="do not build the operator's and the runtime's image"
    )
    up.add_argument("--use-current-cluster", action="store_true", help="take the cluster of KUBECONFIG")
    up.set_defaults(run=_up)
    prepare = commands.add_parser("prepare", help="compile and build images ahead; needs only a bare Python")
    prepare.set_defaults(run=_prepare)
    commands.add_parser("uv-settings", help="print pip's indexes as uv's variables").set_defaults(
        run=_uv_settings
    )
    commands.add_parser("down", help="take it away, with all that it left").set_defaults(run=_down)
    commands.add_parser("status", help="what is up, with pids and logs").set_defaults(run=_status)
    commands.add_parser("images", help="build the images and give them to the cluster").set_defaults(
        run=_images
    )
    commands.add_parser("kubeconfig", help="print the path of the kubeconfig").set_defaults(run=_kubeconfig)
    fake = commands.add_parser("fake-node", help="run a node whose pods only pretend to run")
    fake.add_argument("--name", default="fake-0")
    fake.add_argument("--ready-after", type=float, default=0.5, metavar="SECONDS")
    fake.set_defaults(run=_fake_node)
    return parser


def _up(options: argparse.Namespace) -> int:
    found = lab.up(
        with_node=not options.control_plane_only,
        with_images=not options.no_images and not options.control_plane_only,
        use_current=options.use_current_cluster,
    )
    print(f"export KUBECONFIG={found.kubeconfig}")
    return 0


def _prepare(_: argparse.Namespace) -> int:
    lab.prepare()
    return 0


def _uv_settings(_: argparse.Namespace) -> int:
    print("\n".join(f"export {name}={shlex.quote(value)}" for name, value in wheels.settings().items()))
    return 0


def _down(_: argparse.Namespace) -> int:
    lab.down()
    return 0


def _status(_: argparse.Namespace) -> int:
    print("\n".join(lab.status()))
    return 0 if lab.current() else 1


def _images(_: argparse.Namespace) -> int:
    found = lab.up(with_node=True, with_images=True)
    print("\n".join(f"{role}={reference}" for role, reference in found.images.items()))
    return 0


def _kubeconfig(_: argparse.Namespace) -> int:
    found = lab.current()
    if found is None:
        raise LabError("no cluster is up; `make lab` brings one up")
    print(found.kubeconfig)
    return 0


def _fake_node(options: argparse.Namespace) -> int:
    from .fake_node import (
        run_until_stopped,
    )  # needs the Kubernetes client, which the other commands do without

    found = lab.current()
    if found is None:
        raise LabError("no cluster is up; `make lab` brings one up")
    asyncio.run(run_until_stopped(found.kubeconfig, name=options.name, ready_after=options.ready_after))
    return 0


if __name__ == "__main__":
    sys.exit(main())
