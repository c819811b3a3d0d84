import numpy as np

import linsolve as ls

network = ls.BalancedMode(s=[3.0, 2.0, 1.0])  # three modes of a two-layer linear network
t = np.linspace(0.0, 8.0, 201)
exact = network(t, 1e-3)  # the closed form, from a small start
integrated = ls.integrate(network, t, 1e-3)  # the same network by DOP853
print("largest difference:", abs(exact["a"] - integrated["a"]).max())
print(ls.verify(network, 1e-3))  # the closed form is checked from the loss

with ls.plot.figure() as (fig, ax):
    ls.plot.trajectory(exact, "a", ax)
    ax.plot(t[::10], integrated["a"][::10], "ko", fillstyle="none")
    fig.savefig("stages.png", dpi=150)
