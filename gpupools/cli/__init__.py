"""Subcommands of `gpupools`, one module each: `add(parser)` declares the arguments and the function to run."""
