"""Opponents and referees for the node planner.

`karpenter` consolidates as Karpenter does, `ffd` provisions first-fit-decreasing, `exact` is the integer programme,
`referee` checks any plan without sharing code with the planner, `clusters` draws states from price lists.
"""
