"""Global: which cluster, which accelerator class, when. Pure: Snapshot -> decisions."""
