"""The whole server, without sockets, under frames of every API: generated ones and broken ones."""
