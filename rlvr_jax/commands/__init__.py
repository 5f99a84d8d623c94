"""One file a subcommand of `rlvr`: flags in, a call into the library, an exit code out."""
