"""The metrics over HTTP, as Prometheus scrapes them: a listener and a thread of their own.

prometheus-client serves; the samples are taken on the server's loop (metrics.py).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, start_http_server


@contextlib.contextmanager
def serve_metrics(registry: CollectorRegistry, listen: tuple[str, int]) -> Iterator[str]:
    """Serve the metrics of `registry` on `listen` (host, port; port 0 takes a free one).

    Yields the URL. Raises OSError where the address cannot be had.
    """
    host, port = listen
    server, thread = start_http_server(port, host, registry)
    try:
        shown = f"[{host}]" if ":" in host else host
        yield f"http://{shown}:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
