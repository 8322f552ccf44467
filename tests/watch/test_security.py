"""Kafka's client properties, JAAS, SASL and TLS: what is sent, and what is refused how."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from support.scripted_broker import ScriptedCluster

from pykcoord.errors import ConfigError
from pykcoord.kafka import ClientProperties, Cluster
from pykcoord.kafka import sasl as mechanisms
from pykcoord.kafka.jaas import jaas_options
from pykcoord.kafka.tls import context_of
from pykcoord.kafka.tokens import token_of

pytestmark = pytest.mark.timeout(120)

_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


def test_jaas_as_java_reads_it() -> None:
    text = f'{_PLAIN} username="wat\\"ch" password="a=b;c" serviceName=kafka;'
    assert jaas_options(text) == (
        "PlainLoginModule",
        {"username": 'wat"ch', "password": "a=b;c", "serviceName": "kafka"},
    )


@pytest.mark.parametrize(
    "text", ["", "X required", 'X required a="b"', 'X a="b";', "X required a;"]
)
def test_jaas_that_is_none_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(ValueError, match=r"^(it|option|character)") as raised:
        jaas_options(text)
    assert '"b"' not in str(raised.value)


def test_scram_sha_256_of_rfc_7677() -> None:
    talk = mechanisms.scram("SCRAM-SHA-256", "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    assert next(talk) == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    final = talk.send(f"r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode())
    assert final == f"c=biws,r={nonce},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode()
    with pytest.raises(StopIteration):
        talk.send(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


@pytest.mark.parametrize(
    ("first", "last", "reason"),
    [
        (b"r=other,s=QQ==,i=4096", b"", "not of this conversation"),
        (b"r=nonce,s=QQ==,i=4096", b"", "not of this conversation"),
        (b"r=nonceX,s=QQ==,i=2000000", b"", "iterations"),
        (b"r=nonceX,s=?,i=4096", b"", "not SCRAM"),
        (b"e=unknown-user", b"", "unknown-user"),
        (b"\xff", b"", "no text"),
        (b"r=nonceX,s=QQ==,i=1", b"v=QQ==", "does not know the password"),
        (b"r=nonceX,s=QQ==,i=1", b"e=invalid-proof", "invalid-proof"),
    ],
)
def test_a_server_that_breaks_scram_is_not_believed(first: bytes, last: bytes, reason: str) -> None:
    talk = mechanisms.scram("SCRAM-SHA-512", "user", "pencil", "nonce")
    next(talk)
    with pytest.raises(mechanisms.RefusedError, match=reason):
        _tell(talk, first, last)


def _tell(talk: mechanisms.Conversation, *messages: bytes) -> None:
    for message in messages:
        talk.send(message)


def test_the_password_goes_out_by_plain() -> None:
    async def story() -> None:
        cluster = ScriptedCluster()
        async with cluster.running():
            properties = {
                "bootstrap.servers": cluster.bootstrap,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": f'{_PLAIN} username="watch" password="secret";',
            }
            opened = await Cluster.open(ClientProperties.of(properties))
            await opened.close()
            assert cluster.sasl[0] == b"\0watch\0secret"
            assert "secret" not in repr(opened.properties)

    asyncio.run(story())


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"security.protocol": "SSLL"}, "security.protocol"),
        ({"ssl.trustore.location": "x"}, r"did you mean ssl.truststore.location\?"),
        ({"security.protocol": "SASL_SSL"}, "GSSAPI is not served"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "X"}, "use one of PLAIN"),
        ({"request.timeout.ms": "soon"}, "not a whole number"),
    ],
)
def test_properties_that_cannot_be_used(properties: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        ClientProperties.of(properties)


def test_properties_of_producers_are_passed_over() -> None:
    found = ClientProperties.of({"acks": "all", "group.id": "x", "client.id": "me"})
    assert (found.client_id, found.security_protocol) == ("me", "PLAINTEXT")


def test_javas_own_stores_are_refused_with_the_way_out(tmp_path: Path) -> None:
    store = tmp_path / "trust.jks"
    store.write_bytes(b"\xfe\xed\xfe\xed" + bytes(100))
    with pytest.raises(ConfigError, match=r"only PEM is read; convert it \(keytool -exportcert"):
        context_of({"ssl.truststore.location": str(store)})
    with pytest.raises(ConfigError, match=r"openssl pkcs12"):
        context_of({"ssl.keystore.location": str(store), "ssl.keystore.type": "PKCS12"})
    with pytest.raises(ConfigError, match=r"no certificates in PEM"):
        context_of({"ssl.truststore.location": str(tmp_path / "missing.pem")})


def test_tls_checks_names_unless_told_not_to() -> None:
    assert context_of({}).check_hostname
    context = context_of({"ssl.endpoint.identification.algorithm": ""})
    assert not context.check_hostname
    assert context.verify_mode == ssl.CERT_REQUIRED
    context = context_of({"ssl.enabled.protocols": "TLSv1.3"})
    assert context.minimum_version == ssl.TLSVersion.TLSv1_3
    with pytest.raises(ConfigError, match=r"TLSv1"):
        context_of({"ssl.enabled.protocols": "TLSv1"})


_BEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"


def test_a_token_of_an_endpoint() -> None:
    asked: list[tuple[str, bytes]] = []

    class Endpoint(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            asked.append((self.headers["Authorization"], body))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"access_token": "tok.en"}).encode())

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Endpoint)
    thread = threading.Thread(target=server.handle_request)
    thread.start()
    url = f"http://127.0.0.1:{server.server_address[1]}/token"
    jaas = f'{_BEARER} clientId="me" clientSecret="s" scope="kafka" extension_logicalCluster="lkc";'
    token, extensions = token_of(
        {"sasl.jaas.config": jaas, "sasl.oauthbearer.token.endpoint.url": url}
    )
    thread.join()
    server.server_close()
    assert (token, extensions) == ("tok.en", {"logicalCluster": "lkc"})
    basic = "Basic " + base64.b64encode(b"me:s").decode()
    assert asked == [(basic, b"grant_type=client_credentials&scope=kafka")]
    message = next(mechanisms.oauthbearer(token, extensions))
    assert message == b"n,,\x01auth=Bearer tok.en\x01logicalCluster=lkc\x01\x01"


def test_a_token_of_a_file_and_one_for_development(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("abc.def\n")
    url = (tmp_path / "token").as_uri()
    jaas = {"sasl.jaas.config": f"{_BEARER};"}
    assert token_of({**jaas, "sasl.oauthbearer.token.endpoint.url": url})[0] == "abc.def"
    (tmp_path / "token").write_text("no token at all")
    with pytest.raises(mechanisms.RefusedError, match="no token"):
        token_of({**jaas, "sasl.oauthbearer.token.endpoint.url": url})
    made, _ = token_of({"sasl.jaas.config": f'{_BEARER} unsecuredLoginStringClaim_sub="watch";'})
    head, claims, signature = made.split(".")
    assert json.loads(base64.urlsafe_b64decode(head + "==")) == {"alg": "none"}
    assert json.loads(base64.urlsafe_b64decode(claims + "=="))["sub"] == "watch"
    assert signature == ""
