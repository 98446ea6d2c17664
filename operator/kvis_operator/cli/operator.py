"""`kvis operator run`: settings, profiles and key are read and checked, then the process runs until it is
stopped.
"""

import argparse
import asyncio
import sys
from pathlib import Path
from typing import Any

from kvis_operator.api.errors import ProfilesInvalid
from kvis_operator.api.profile import load_profiles
from kvis_operator.cli import log_format
from kvis_operator.cli.process import Inputs, run_process
from kvis_operator.cli.settings import Settings, SettingsError, load
from kvis_operator.cluster.connection import ConnectionSettingsError
from kvis_operator.cluster.runtime_admin import AdminKey, AdminKeyError

EXIT_SETTINGS = 78  # sysexits EX_CONFIG: starting again will not help

FLAGS: dict[str, tuple[type, str]] = {
    "kubeconfig": (Path, "FILE: cluster access; absent: the pod's service account"),
    "namespace": (str, "where the lease lies"),
    "lease-name": (str, "name of the lease"),
    "identity": (str, "name of this process in the lease"),
    "lease-seconds": (int, "validity of the lease"),
    "renew-seconds": (int, "give up leading after this long without renewal"),
    "retry-seconds": (int, "between tries for the lease"),
    "profiles": (Path, "FILE: table of hardware profiles"),
    "admin-key": (Path, "FILE: PEM Ed25519 private key for the pods' admin port"),
    "tick-seconds": (float, "between scrapes and decisions"),
    "manual-hold-seconds": (float, "how long a `kubectl scale` in Auto is honoured"),
    "resync-seconds": (float, "between whole listings"),
    "status-seconds": (float, "at most one status write in this"),
    "scrape-seconds": (float, "deadline of one pod's scrape"),
    "workers": (int, "services looked at side by side"),
    "host": (str, "address of the HTTP server"),
    "port": (int, "port of the HTTP server"),
    "log-level": (str, "debug, info, warning or error"),
}
"""Command-line flag -> (type, help); each is a setting of the same name."""


def add_parser(subparsers: Any) -> None:
    operator = subparsers.add_parser("operator", help="run the operator")
    run_parser = operator.add_subparsers(dest="action", required=True).add_parser(
        "run", help="run until stopped"
    )
    run_parser.add_argument("--settings", type=Path, help="FILE: settings as YAML; flags win over it")
    run_parser.add_argument("--namespaces", help="namespaces to serve, separated by commas; absent: all")
    run_parser.add_argument("--network-policies", action="store_true", default=None)
    for name, (kind, text) in FLAGS.items():
        run_parser.add_argument(f"--{name}", type=kind, help=text)


def run(args: argparse.Namespace) -> int:
    """Exit code: 0 after a signal, 78 when the settings cannot work, 1 when the lease or a task was lost."""
    given = {name.replace("-", "_"): getattr(args, name.replace("-", "_")) for name in FLAGS}
    given["network_policies"] = args.network_policies
    given["namespaces"] = tuple(args.namespaces.split(",")) if args.namespaces else None
    try:
        settings = load(args.settings, given)
        inputs = read_inputs(settings)
    except (SettingsError, ProfilesInvalid, AdminKeyError) as error:
        print(f"kvis operator: {error}", file=sys.stderr)
        return EXIT_SETTINGS
    log_format.configure(settings.log_level)
    try:
        return asyncio.run(run_process(settings, inputs))
    except ConnectionSettingsError as error:
        print(f"kvis operator: {error}", file=sys.stderr)
        return EXIT_SETTINGS


def read_inputs(settings: Settings) -> Inputs:
    try:
        text = settings.profiles.read_text(encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"profiles: {settings.profiles} cannot be read: {error}") from error
    key = AdminKey.load(settings.admin_key) if settings.admin_key else None
    return Inputs(load_profiles(text), key)
