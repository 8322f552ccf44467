"""The token of OAUTHBEARER: from an authorization server, a file, or made here for development."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from pykcoord.clock import Clock
from pykcoord.errors import ConfigError
from pykcoord.kafka.sasl import RefusedError, module_options

__all__ = ["token_of"]

_ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
_CREDENTIALS = "sasl.oauthbearer.client.credentials."
_MOST_BYTES = 1 << 20
_UNSECURED_SECONDS = 3_600


def token_of(values: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """A fresh token and the SASL extensions. Blocks; to be called on a thread.

    By `sasl.oauthbearer.token.endpoint.url`: `file:` is a file that holds a token, `https:` (and
    `http:`) an endpoint that is asked with the client's credentials. Without it, the options
    `unsecuredLoginStringClaim_sub` ... of the login module make an unsigned token, which brokers
    take in development only. Raises ConfigError, RefusedError where no token is given out.
    """
    options = module_options(values)
    extensions = {
        name.removeprefix("extension_"): value
        for name, value in options.items()
        if name.startswith("extension_")
    }
    endpoint = values.get(_ENDPOINT, "")
    scheme = urllib.parse.urlsplit(endpoint).scheme
    if scheme == "file":
        return _from_file(endpoint), extensions
    if scheme in ("http", "https"):
        return _asked_for(endpoint, values, options), extensions
    if endpoint:
        raise ConfigError(_ENDPOINT, f"{endpoint}: neither https: nor file:")
    subject = options.get("unsecuredLoginStringClaim_sub")
    if subject is None:
        raise ConfigError(_ENDPOINT, "missing: where tokens come from, https: or file:")
    return _unsecured(subject), extensions


def _from_file(url: str) -> str:
    path = Path(urllib.request.url2pathname(urllib.parse.urlsplit(url).path))
    try:
        token = path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise RefusedError(f"{path}: no token there ({error})") from None
    return _checked(token, str(path))


def _asked_for(endpoint: str, values: Mapping[str, str], options: Mapping[str, str]) -> str:
    """RFC 6749, 4.4: client credentials."""
    client_id = values.get(_CREDENTIALS + "client.id", options.get("clientId"))
    secret = values.get(_CREDENTIALS + "client.secret", options.get("clientSecret"))
    if client_id is None or secret is None:
        reason = "no clientId and clientSecret in it, nor as sasl.oauthbearer.client.credentials.*"
        raise ConfigError("sasl.jaas.config", reason)
    form = {"grant_type": "client_credentials"}
    if scope := values.get("sasl.oauthbearer.scope", options.get("scope")):
        form["scope"] = scope
    basic = base64.b64encode(f"{client_id}:{secret}".encode()).decode()
    request = urllib.request.Request(
        endpoint,
        urllib.parse.urlencode(form).encode(),
        {"Authorization": f"Basic {basic}", "Accept": "application/json"},
    )
    timeout_ms = int(values.get("sasl.login.read.timeout.ms", "10000"))
    try:
        with urllib.request.urlopen(request, timeout=timeout_ms / 1000) as answer:
            document = json.loads(answer.read(_MOST_BYTES))
    except urllib.error.HTTPError as error:
        raise RefusedError(f"{endpoint}: {error.code} {error.reason}") from None
    except (OSError, ValueError) as error:
        raise RefusedError(f"{endpoint}: {error}") from None
    token = document.get("access_token") if isinstance(document, dict) else None
    return _checked(token if isinstance(token, str) else "", endpoint)


def _checked(token: str, where: str) -> str:
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise RefusedError(f"{where}: what is there is no token")
    return token


def _unsecured(subject: str) -> str:
    """Kafka's OAuthBearerUnsecuredLoginCallbackHandler: a JWT without a signature."""
    now = Clock().now_ms() / 1000
    claims = {"sub": subject, "iat": now, "exp": now + _UNSECURED_SECONDS}
    parts = [json.dumps(part).encode() for part in ({"alg": "none"}, claims)]
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts) + "."
