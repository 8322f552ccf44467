"""One real broker with every way in: plain, TLS, SASL mechanisms, and ACLs of its principals."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from support.certificates import make_certificate
from support.kafka.broker import KafkaBroker
from support.ports import free_port

_MODULES = "org.apache.kafka.common.security"
PASSWORD = "s3cret"
_WAIT_S = 60.0


class SecuredBroker:
    """`address` is the listener without any; the others by protocol. Principals: `watch` may read
    `__consumer_offsets`, `poor` may not; `mend` may change groups. `logs` may read that topic and
    no other, `blind` all topics, but describe no group; `look` may describe the cluster."""

    def __init__(self, directory: Path) -> None:
        self.certificate = directory / "broker.pem"
        self.ports = {name: free_port() for name in ("SASL_PLAINTEXT", "SSL", "SASL_SSL")}
        make_certificate(self.certificate)
        self.broker = KafkaBroker(directory / "broker", heap="400m")
        listeners = [f"PLAINTEXT://{self.broker.address}"]
        listeners += [f"{name}://127.0.0.1:{port}" for name, port in self.ports.items()]
        controller = f"CONTROLLER://127.0.0.1:{self.broker.port + 1}"
        plain = f'{_MODULES}.plain.PlainLoginModule required user_watch="{PASSWORD}" '
        plain += f'user_poor="{PASSWORD}" user_mend="{PASSWORD}" '
        plain += " ".join(f'user_{name}="{PASSWORD}"' for name in ("logs", "blind", "look")) + ";"
        protocols = ["PLAINTEXT", *self.ports]
        self.broker.settings |= {
            "listeners": ",".join([*listeners, controller]),
            "advertised.listeners": ",".join(listeners),
            "listener.security.protocol.map": ",".join(
                ["CONTROLLER:PLAINTEXT", *(f"{name}:{name}" for name in protocols)]
            ),
            "offsets.topic.num.partitions": "5",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.certificate),
        }
        for name in ("sasl_plaintext", "sasl_ssl"):
            prefix = f"listener.name.{name}"
            self.broker.settings |= {
                f"{prefix}.plain.sasl.jaas.config": plain,
                f"{prefix}.scram-sha-256.sasl.jaas.config":
                    f"{_MODULES}.scram.ScramLoginModule required;",
                f"{prefix}.scram-sha-512.sasl.jaas.config":
                    f"{_MODULES}.scram.ScramLoginModule required;",
                f"{prefix}.oauthbearer.sasl.jaas.config":
                    f"{_MODULES}.oauthbearer.OAuthBearerLoginModule required "
                    'unsecuredLoginStringClaim_sub="broker";',
            }  # fmt: skip

    @property
    def address(self) -> str:
        return self.broker.address

    @contextmanager
    def running(self) -> Iterator[SecuredBroker]:
        with self.broker.start():
            self._set_up()
            yield self

    def properties(self, protocol: str, mechanism: str = "", user: str = "watch") -> dict[str, str]:
        """A client's, for that listener."""
        port = self.ports.get(protocol, self.broker.port)
        found = {"bootstrap.servers": f"127.0.0.1:{port}", "security.protocol": protocol}
        if protocol.endswith("SSL"):
            found |= {
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(self.certificate),
            }
        if mechanism:
            module = {"PLAIN": "plain.PlainLoginModule", "OAUTHBEARER": ""}.get(
                mechanism, "scram.ScramLoginModule"
            )
            jaas = f'{_MODULES}.{module} required username="{user}" password="{PASSWORD}";'
            if mechanism == "OAUTHBEARER":
                module = "oauthbearer.OAuthBearerLoginModule"
                jaas = f'{_MODULES}.{module} required unsecuredLoginStringClaim_sub="{user}";'
            found |= {"sasl.mechanism": mechanism, "sasl.jaas.config": jaas}
        return found

    def _set_up(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.address})
        topics = [NewTopic("orders", 4, 1), NewTopic("secret", 1, 1)]
        for made in admin.create_topics(topics).values():
            made.result(_WAIT_S)
        for of in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            # One request each: Kafka takes no user twice in one.
            credential = UserScramCredentialUpsertion(
                "watch", ScramCredentialInfo(of, 4096), PASSWORD.encode()
            )
            for changed in admin.alter_user_scram_credentials([credential]).values():
                changed.result(_WAIT_S)
        rights = [
            _allow("watch", ResourceType.TOPIC, "*", AclOperation.READ),
            _allow("watch", ResourceType.GROUP, "*", AclOperation.DESCRIBE),
            _allow("poor", ResourceType.TOPIC, "orders", AclOperation.DESCRIBE),
            _allow("poor", ResourceType.GROUP, "*", AclOperation.DESCRIBE),
            _allow("mend", ResourceType.TOPIC, "*", AclOperation.READ),
            _allow("mend", ResourceType.GROUP, "*", AclOperation.READ),
            _allow("mend", ResourceType.GROUP, "*", AclOperation.DELETE),
            _allow("logs", ResourceType.TOPIC, "__consumer_offsets", AclOperation.READ),
            _allow("logs", ResourceType.GROUP, "*", AclOperation.DESCRIBE),
            _allow("blind", ResourceType.TOPIC, "*", AclOperation.READ),
            _allow("look", ResourceType.BROKER, "kafka-cluster", AclOperation.DESCRIBE),
        ]
        for given in admin.create_acls(rights).values():
            given.result(_WAIT_S)


def _allow(user: str, kind: ResourceType, name: str, operation: AclOperation) -> AclBinding:
    return AclBinding(
        kind, name, ResourcePatternType.LITERAL, f"User:{user}", "*", operation,
        AclPermissionType.ALLOW,
    )  # fmt: skip
