"""One device: which kernels run together next, with how many SMs. Pure."""
