"""The subcommands of `gpupools`, one module each: `add(commands)` declares its arguments and what runs."""
