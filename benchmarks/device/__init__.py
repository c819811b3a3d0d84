"""Device benchmark: ensembles on a GPU against its memory bandwidth, the processor and fifty digits."""
