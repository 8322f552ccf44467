"""The server is killed with SIGKILL under load: what it acknowledged has to be there afterwards."""
