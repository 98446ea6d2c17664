"""Settings of the operator process: one frozen model, read here and nowhere else.

From a YAML file (the chart mounts one) and then from command-line flags, which win. An unknown key or a
value out of bounds ends the start with the field's name.
"""

from pathlib import Path
from typing import Annotated, Any, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel


class SettingsError(Exception):
    """The settings cannot be used; the message names each field and what would be accepted."""


class Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel, validate_by_name=True)

    kubeconfig: Annotated[Path | None, Field(description="Absent: the pod's service account.")] = None
    namespaces: Annotated[tuple[str, ...], Field(description="Namespaces to serve; empty: all.")] = ()
    namespace: Annotated[
        str | None,
        Field(description="Where the lease lies; absent: the pod's own, outside a cluster `default`."),
    ] = None
    lease_name: Annotated[str, Field(min_length=1, max_length=253)] = "kvis-operator"
    identity: Annotated[
        str | None,
        Field(description="Name of this process in the lease, a random part is added; absent: the pod's."),
    ] = None
    lease_seconds: Annotated[int, Field(ge=3, le=120)] = 15
    renew_seconds: Annotated[int, Field(ge=2, le=119)] = 10
    retry_seconds: Annotated[int, Field(ge=1, le=60)] = 2

    profiles: Annotated[Path, Field(description="The administrator's table of hardware profiles.")] = Path(
        "/etc/kvis/profiles.yaml"
    )
    admin_key: Annotated[
        Path | None,
        Field(description="PEM Ed25519 private key for the pods' admin port; absent: no live tuning."),
    ] = None
    network_policies: Annotated[
        bool,
        Field(description="Render a NetworkPolicy for each service; needs the operator's own namespace."),
    ] = False

    tick_seconds: Annotated[float, Field(ge=1, le=60, description="Between scrapes and decisions.")] = 15.0
    manual_hold_seconds: Annotated[
        float, Field(ge=1, le=86_400, description="How long a `kubectl scale` in Auto is honoured.")
    ] = 600.0
    resync_seconds: Annotated[float, Field(ge=5, le=86_400, description="Between whole listings.")] = 300.0
    status_seconds: Annotated[float, Field(ge=1, le=300, description="At most one status write in this.")] = (
        10.0
    )
    scrape_seconds: Annotated[float, Field(ge=0.1, le=30, description="Deadline of one pod's scrape.")] = 3.0
    scrapes_at_once: Annotated[int, Field(ge=1, le=1024)] = 64
    workers: Annotated[int, Field(ge=1, le=256, description="Services looked at side by side.")] = 16

    host: Annotated[str, Field(description="Address of the HTTP server for probes and metrics.")] = "0.0.0.0"
    port: Annotated[int, Field(ge=0, le=65_535)] = 8080
    log_level: Annotated[str, Field(pattern="^(debug|info|warning|error)$")] = "info"

    @model_validator(mode="after")
    def _times_agree(self) -> Self:
        if not self.lease_seconds > self.renew_seconds > 1.2 * self.retry_seconds:
            raise ValueError("leaseSeconds > renewSeconds > 1.2 * retrySeconds must hold")
        if self.scrape_seconds >= self.tick_seconds:
            raise ValueError("scrapeSeconds must be smaller than tickSeconds")
        return self


def load(path: Path | None, overrides: dict[str, Any]) -> Settings:
    """The file's settings with `overrides` (by field name, None = not given) on top. Raises SettingsError."""
    document: Any = {}
    if path is not None:
        try:
            document = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
        except (OSError, yaml.YAMLError) as error:
            raise SettingsError(f"{path} cannot be read as YAML: {error}") from error
        if not isinstance(document, dict):
            raise SettingsError(f"{path} must hold a mapping of settings")
    given = {to_camel(name): value for name, value in overrides.items() if value is not None}
    try:
        return Settings.model_validate({**document, **given})
    except ValidationError as error:
        lines = (f"{'.'.join(map(str, e['loc'])) or 'settings'}: {e['msg']}" for e in error.errors())
        raise SettingsError("; ".join(lines)) from error
