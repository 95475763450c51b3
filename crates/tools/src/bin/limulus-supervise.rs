//! The supervisor alone, for the tests of this crate: `limulus-supervise supervise FOLDER`, as in the `limulus` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    tools::supervise_main(std::env::args_os().skip(2))
}
