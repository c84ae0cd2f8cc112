"""The sub-commands, one module for each noun; `taskq_cli.main` lists them."""
