"""PyTorch as a second backend of the device daemon (extra `torch`): exported programs run operator by operator
(`runner`), and eager modules that a dispatch hook makes stand still between operators (`hook`)."""
