"""How to reach the API server: kubeconfig or the pod's own service account, for our client and for kopf.

Our client and kopf get separate connections and the lease a third, so that neither a burst of reconciles
nor a stalled watch can cost us the lease. Credentials are read here and nowhere else.
"""

from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
from kubernetes.aio import client, config
from kubernetes.aio.config.config_exception import ConfigException

SERVICE_ACCOUNT_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


class ConnectionSettingsError(Exception):
    """Neither a kubeconfig nor a service account could be read."""


async def connect(kubeconfig: Path | None) -> client.ApiClient:
    """A client from `kubeconfig`, or from the pod's service account. It sends nothing yet."""
    configuration = client.Configuration()
    try:
        if kubeconfig is not None:
            await config.load_kube_config(config_file=str(kubeconfig), client_configuration=configuration)
        else:
            config.load_incluster_config(client_configuration=configuration)
    except (ConfigException, OSError) as error:
        where = (
            f"kubeconfig {kubeconfig}"
            if kubeconfig
            else "the pod's service account (or give --kubeconfig FILE)"
        )
        raise ConnectionSettingsError(f"No usable credentials in {where}: {error}") from error
    return client.ApiClient(configuration=configuration)


async def authorization(api: client.ApiClient, path: str) -> dict[str, str]:
    """The headers that authenticate a call now; tokens that rotate on disk are read again when due."""
    headers: dict[str, str] = {}
    await api.update_params_for_auth(headers, [], ["BearerToken"], path, "GET", None)
    return headers


async def watch_session(api: client.ApiClient, trace: aiohttp.TraceConfig) -> aiohttp.ClientSession:
    """A session for kopf's watches, observed by `trace`; it carries the same credentials as `api`."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=api.rest_client.ssl_context),
        headers=await authorization(api, "/"),
        trace_configs=[trace],
        read_bufsize=2**21,  # one watch event may be as large as an object: up to 1.5 MB
    )


def server(api: client.ApiClient) -> str:
    host: str = api.configuration.host
    if not urlsplit(host).hostname:
        raise ConnectionSettingsError(f"The API server's address {host!r} has no host")
    return host


def own_namespace(default: str) -> str:
    """The namespace this process runs in; `default` outside a cluster."""
    try:
        return SERVICE_ACCOUNT_NAMESPACE.read_text(encoding="utf-8").strip() or default
    except OSError:
        return default
