//! The hidden subcommand alone, for the tests of this crate: `limulus-confine confine PROGRAM …`, as in the `limulus` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    confine::confine_main(std::env::args_os().skip(2))
}
