"""A sweep on a Dask cluster: ``python notebooks/cluster.py``; extras ``[store]`` and ``[cluster]``.

The cluster here is local; for a real one give its address, ``Client("tcp://scheduler:8786")``: nothing else changes.
Blocks go to a store as they finish. Kill this script, or a worker, at any moment, and start it again: it goes on.
"""

import argparse

import numpy as np
from distributed import Client

import linsolve as ls


def start(gamma, width, rng):
    """Order parameters of random networks with weights of order one, one a cell, whatever their width."""
    width = np.broadcast_to(width, np.broadcast_shapes(gamma.shape, width.shape))
    norm_u, along, across = (part[0] for part in ls.phases.wishart(width, 1, rng=rng))
    p, q = (np.stack([along + sign * norm_u, across]) / 2 for sign in (1, -1))
    return ls.TwoLayerOrder.State((p * p).sum(axis=0), (q * q).sum(axis=0), (p * q).sum(axis=0))


def main():
    """Sweep the change of the tangent kernel over the width and the scale of the model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, default=400, help="points along each axis")
    parser.add_argument("--store", default="cluster.zarr", help="where finished blocks are kept")
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
    print(f"{options.cells} x {options.cells} random networks: {share:.1%} keep their kernel to a tenth")


if __name__ == "__main__":
    main()
