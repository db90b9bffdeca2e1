"""Local: which node, which device, which slice. Pure: ClusterState -> decisions."""
