//! The hidden subcommands alone, for the tests of this crate: `limulus-supervise supervise FOLDER` and `limulus-supervise schema-check`,
//! as in the `limulus` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    if std::env::args_os().nth(1).is_some_and(|word| word == tools::SCHEMA_CHECK) {
        return tools::schema_check_main();
    }
    tools::supervise_main(std::env::args_os().skip(2))
}
