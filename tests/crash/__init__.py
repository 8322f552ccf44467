"""The server is killed with SIGKILL under load: everything acknowledged must be there
afterwards."""
