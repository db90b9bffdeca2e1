"""PyTorch as a second backend of the device daemon (extra `torch`): exported programs, run operator by operator."""
