"""The subcommands of `gpupools`, one module each: `add(parser)` declares its arguments and what runs."""
