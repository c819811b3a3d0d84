"""A sweep on a Dask cluster: ``python notebooks/cluster.py``; extras ``[store]`` and ``[cluster]``.

The cluster is local; for a remote one give its address, ``Client("tcp://scheduler:8786")``. Finished blocks are written
to a store. After an interruption of this script or of a worker, start it again: the sweep continues from the store.
"""

import argparse

import numpy as np
from distributed import Client

import linsolve as ls


def start(gamma, width, rng):
    """Return order parameters of random networks with weights of order one, one network per cell, at any width."""
    width = np.broadcast_to(width, np.broadcast_shapes(gamma.shape, width.shape))
    norm_u, along, across = (part[0] for part in ls.phases.wishart(width, 1, rng=rng))
    p, q = (np.stack([along + sign * norm_u, across]) / 2 for sign in (1, -1))
    return ls.TwoLayerOrder.State((p * p).sum(axis=0), (q * q).sum(axis=0), (p * q).sum(axis=0))


def main():
    """Sweep the change of the tangent kernel over the width and the scale of the model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, default=400, help="points along each axis")
    parser.add_argument("--store", default="cluster.zarr", help="store of finished blocks")
    options = parser.parse_args()
    gamma, width = np.geomspace(1e-3, 1.0, options.cells), np.geomspace(1.0, 1e6, options.cells)
    kernel = ls.ensembles.of(ls.TwoLayerOrder, "ntk", start=start, y=1.0)
    with Client(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0") as client:
        d = ls.sweep(
            kernel,
            gamma=gamma,
            width=width,
            t=[0.0, np.inf],
            rng=0,
            store=options.store,
            executor=client.get_executor(),
        )
    before, after = np.moveaxis(d["ntk"], -1, 0)
    share = np.mean(np.abs(after / before - 1) < 0.1)
    print(f"{options.cells} x {options.cells} random networks: {share:.1%} change their kernel by less than a tenth")


if __name__ == "__main__":
    main()
