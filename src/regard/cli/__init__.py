"""The command line: thin shells with late imports, so that `regard --help` does not wait for torch."""
