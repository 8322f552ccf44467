"""TLS to a broker by Kafka's `ssl.*` properties. Certificates and keys in PEM only.

Java's own stores (JKS, PKCS12) are refused with the commands that convert them: reading them would
need a library of cryptography more.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Mapping

from pykcoord.errors import ConfigError

__all__ = ["context_of"]

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


def context_of(values: Mapping[str, str]) -> ssl.SSLContext:
    """The context for `values`, properties by Kafka's names. Without a trust store the system's
    authorities are trusted. Raises ConfigError, which names the property and the file."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _set_trust(context, values)
    _set_key(context, values)
    if not values.get("ssl.endpoint.identification.algorithm", "https").strip():
        context.check_hostname = False
    versions = [name.strip() for name in values.get("ssl.enabled.protocols", "").split(",")]
    if wanted := [name for name in versions if name]:
        unknown = [name for name in wanted if name not in _VERSIONS]
        if unknown:
            raise ConfigError("ssl.enabled.protocols", f"{unknown[0]!r} is none of {[*_VERSIONS]}")
        context.minimum_version = min(_VERSIONS[name] for name in wanted)
        context.maximum_version = max(_VERSIONS[name] for name in wanted)
    return context


def _set_trust(context: ssl.SSLContext, values: Mapping[str, str]) -> None:
    inline = values.get("ssl.truststore.certificates")
    path = values.get("ssl.truststore.location")
    if inline is None and path is None:
        context.load_default_certs()
        return
    name = "ssl.truststore.certificates" if inline is not None else "ssl.truststore.location"
    if path is not None:
        _check_type(values, "ssl.truststore.type", path, "-exportcert -rfc -alias ALIAS")
    try:
        if inline is not None:
            context.load_verify_locations(cadata=inline)
        else:
            context.load_verify_locations(cafile=path)
    except (OSError, ValueError) as error:
        raise ConfigError(name, f"{path or 'its text'}: no certificates in PEM ({error})") from None


def _set_key(context: ssl.SSLContext, values: Mapping[str, str]) -> None:
    chain, key = values.get("ssl.keystore.certificate.chain"), values.get("ssl.keystore.key")
    path = values.get("ssl.keystore.location")
    password = values.get("ssl.key.password")
    try:
        if path is not None:
            _check_type(values, "ssl.keystore.type", path, "")
            context.load_cert_chain(path, password=password)
        elif chain is not None and key is not None:
            with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:  # 0600
                file.write(f"{key}\n{chain}\n")
                file.flush()
                context.load_cert_chain(file.name, password=password)
    except (OSError, ValueError) as error:
        shown = path or "ssl.keystore.key"
        raise ConfigError(
            "ssl.keystore.location" if path else "ssl.keystore.key",
            f"{shown}: no private key with its certificates in PEM, or a wrong ssl.key.password "
            f"({error})",
        ) from None


def _check_type(values: Mapping[str, str], name: str, path: str, how: str) -> None:
    """Kafka's default is JKS: where a file is PEM, its type may be left out here."""
    kind = values.get(name, "PEM").upper()
    if kind == "PEM" and not _is_binary(path):
        return
    tool = (
        f"keytool {how} -keystore {os.path.basename(path)} > trust.pem"
        if how
        else f"openssl pkcs12 -in {os.path.basename(path)} -out key.pem"
    )
    raise ConfigError(name, f"{path}: only PEM is read; convert it ({tool}) and set {name}=PEM")


def _is_binary(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return b"-----BEGIN" not in file.read(1 << 20)
    except OSError:
        return False  # opening it says why
