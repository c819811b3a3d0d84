"""What `linsolve bench` does: ensembles on a GPU, measured against its memory, the processor and fifty digits."""
