"""Samples and records in, SLO attainment, cost and carbon ledger out. Pure."""
