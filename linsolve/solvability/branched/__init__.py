"""Networks of two-layer branches: gated networks and late fusion."""
