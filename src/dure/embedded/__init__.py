"""Plane, agents and embedded clusters in one process: the demo (`dure up`) and the simulation (`dure sim`).

`world` wires the parts, `live` runs them against a scaled clock and keeps their state, `week` runs them in
virtual time and reports.
"""
