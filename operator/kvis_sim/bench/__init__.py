"""The scaling benchmark: every scaler on every scenario in the simulator, and what follows from it.

`python -m kvis_sim.bench` runs it (see `__main__`). Runs are cached as rows, so that an interrupted
benchmark continues where it stopped. Every number here is simulated; nothing in this package touches a
cluster or a GPU.
"""
