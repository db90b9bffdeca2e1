"""Samples and records in; SLO attainment, cost and carbon ledger, tenants' usage out. Pure."""
