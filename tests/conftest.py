import os

os.environ.setdefault("MPLBACKEND", "Agg")
# tests run one to a core already; a BLAS that also takes all cores for 10 x 10 matrices only slows them down
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
