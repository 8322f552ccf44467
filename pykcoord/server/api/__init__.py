"""Node-level APIs: what a broker answers beside the group APIs. One file per API."""
