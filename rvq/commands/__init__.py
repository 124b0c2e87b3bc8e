"""Every module here is a sub-command of `rvq`, named like the module.

It has `HELP` (one line), `add_arguments(parser)` and `run(arguments, environ) -> int`, the exit status.
"""
