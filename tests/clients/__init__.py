"""Real clients in six libraries, steered by the same scenarios."""
