"""Flow, law, query, trajectory, integration and proof; nothing here names a particular system."""
