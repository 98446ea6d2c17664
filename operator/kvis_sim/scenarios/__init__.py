"""The benchmark's scenarios: plain recipes (`catalogue`) and how they become traffic (`traffic`, `recipe`).

A recipe is a frozen value without functions, so that its text identifies it, a worker process can rebuild
it, and the row cache knows when it changed.
"""
