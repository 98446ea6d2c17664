"""The neighbours' scalers, ported from their published rules, to be run beside ours in the same simulator.

Each module states its source and follows that project's own code path, its known weaknesses included: a
rival that is improved on the way is no rival. All share one input, `FleetReading`, and one call,
`step(reading) -> replicas`.
"""
