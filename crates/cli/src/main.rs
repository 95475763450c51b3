//! The binary `limulus`.

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
