"""The routes of `/v1`, one module per noun. Quick reads run on the event loop; what may wait runs in a thread."""
