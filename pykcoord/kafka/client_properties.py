"""Kafka's client properties, as its tools take them by `--command-config`: what counts here.

Names, defaults and meanings are Kafka's (CommonClientConfigs, SslConfigs, SaslConfigs). A name
that this package does not need is passed over: the same file serves producers and consumers. A name
that begins as those of security do and is not known is refused: it would be left out in silence.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field

from pykcoord.errors import ConfigError

__all__ = ["MECHANISMS", "ClientProperties"]

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_STRICT = ("security.", "ssl.", "sasl.")
_UNDERSTOOD = frozenset(
    {
        "security.protocol",
        "ssl.truststore.type", "ssl.truststore.location", "ssl.truststore.certificates",
        "ssl.keystore.type", "ssl.keystore.location", "ssl.keystore.key",
        "ssl.keystore.certificate.chain", "ssl.key.password", "ssl.enabled.protocols",
        "ssl.cipher.suites", "ssl.endpoint.identification.algorithm",
        "sasl.mechanism", "sasl.jaas.config", "sasl.oauthbearer.token.endpoint.url",
        "sasl.oauthbearer.client.credentials.client.id",
        "sasl.oauthbearer.client.credentials.client.secret", "sasl.oauthbearer.scope",
        "sasl.login.connect.timeout.ms", "sasl.login.read.timeout.ms",
    }
)  # fmt: skip
# Known to Kafka, and without effect here: they refine what is done in another way, or is not done.
_WITHOUT_EFFECT = frozenset(
    {
        "security.providers", "ssl.protocol", "ssl.provider", "ssl.truststore.password",
        "ssl.keystore.password", "ssl.keymanager.algorithm", "ssl.trustmanager.algorithm",
        "ssl.secure.random.implementation", "ssl.engine.factory.class",
        "sasl.kerberos.service.name", "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.ticket.renew.window.factor", "sasl.kerberos.ticket.renew.jitter",
        "sasl.kerberos.min.time.before.relogin", "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter", "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.buffer.seconds", "sasl.login.retry.backoff.ms",
        "sasl.login.retry.backoff.max.ms", "sasl.oauthbearer.scope.claim.name",
        "sasl.oauthbearer.sub.claim.name", "sasl.oauthbearer.header.urlencode",
        "sasl.login.callback.handler.class", "sasl.login.class",
        "sasl.client.callback.handler.class",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ClientProperties:
    """How to reach a cluster. `values` are the properties of security by Kafka's names, and hold
    passwords: they are not in its text. Made by `of`, which checks all.

    The others are the client's properties of the same names: `bootstrap_servers`,
    `security_protocol`, `sasl_mechanism` (empty: no SASL), `client_id`, `fetch_max_bytes`; in ms
    `request_timeout_ms`, `metadata_max_age_ms`, `socket_connection_setup_timeout_ms` (from 100) and
    `fetch_max_wait_ms` (from 1).
    """

    bootstrap_servers: str = ""
    security_protocol: str = "PLAINTEXT"
    sasl_mechanism: str = ""
    client_id: str = "pykcoord-watch"
    request_timeout_ms: int = 30_000
    metadata_max_age_ms: int = 30_000
    socket_connection_setup_timeout_ms: int = 10_000
    fetch_max_bytes: int = 52_428_800
    fetch_max_wait_ms: int = 500
    values: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> ClientProperties:
        """From properties by Kafka's names. Raises ConfigError."""
        for name in properties:
            if name.startswith(_STRICT) and name not in _UNDERSTOOD | _WITHOUT_EFFECT:
                nearest = difflib.get_close_matches(name, _UNDERSTOOD, 1)
                hint = f"; did you mean {nearest[0]}?" if nearest else ""
                raise ConfigError(name, f"unknown name{hint}")
        protocol = properties.get("security.protocol", "PLAINTEXT").upper()
        if protocol not in _PROTOCOLS:
            raise ConfigError("security.protocol", f"{protocol!r} is none of {_PROTOCOLS}")
        mechanism = properties.get("sasl.mechanism", "GSSAPI")  # Kafka's default
        if protocol.startswith("SASL_") and mechanism not in MECHANISMS:
            known = ", ".join(MECHANISMS)
            raise ConfigError("sasl.mechanism", f"{mechanism} is not served; use one of {known}")
        return cls(
            bootstrap_servers=properties.get("bootstrap.servers", ""),
            security_protocol=protocol,
            sasl_mechanism=mechanism if protocol.startswith("SASL_") else "",
            client_id=properties.get("client.id", "pykcoord-watch"),
            request_timeout_ms=_number(properties, "request.timeout.ms", 30_000, 100),
            metadata_max_age_ms=_number(properties, "metadata.max.age.ms", 30_000, 100),
            socket_connection_setup_timeout_ms=_number(
                properties, "socket.connection.setup.timeout.ms", 10_000, 100
            ),
            fetch_max_bytes=_number(properties, "fetch.max.bytes", 52_428_800, 1_024),
            fetch_max_wait_ms=_number(properties, "fetch.max.wait.ms", 500, 1),
            values={name: of for name, of in properties.items() if name in _UNDERSTOOD},
        )

    @property
    def uses_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.security_protocol.endswith("SSL")


def _number(properties: Mapping[str, str], name: str, default: int, least: int) -> int:
    text = properties.get(name, "").strip()
    if not text:
        return default
    if not text.isascii() or not text.isdigit() or not least <= int(text) < 2**31:
        raise ConfigError(name, f"{text!r} is not a whole number from {least} to 2147483647")
    return int(text)
