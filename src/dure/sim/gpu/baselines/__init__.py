"""The published ways of sharing one GPU, as opponents: one file each, compiled, called by the event loop.

Each file states its rule and what published figures it was checked against; `codes.py` numbers them.
"""
