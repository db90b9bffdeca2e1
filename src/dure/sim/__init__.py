"""Virtual time over the pure packages: engines, arrivals, opponents. No wall clock, seeded chance only."""
