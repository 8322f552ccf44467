"""The fixtures of the client scenarios; they live in a module that other tests import too."""

from clients.fixtures import cluster, crew, mortal_cluster, new_crew, programs

__all__ = ["cluster", "crew", "mortal_cluster", "new_crew", "programs"]
