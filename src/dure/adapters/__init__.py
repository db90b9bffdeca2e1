"""One folder per foreign system. Each implements Protocols of `dure.ports` and nothing else."""
