"""Statistics of the tangent kernel of random networks: exact, asymptotic, published and sampled."""
