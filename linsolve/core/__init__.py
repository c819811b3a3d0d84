"""Flow, law, query, trajectory, integration and verification, independent of any particular system."""
