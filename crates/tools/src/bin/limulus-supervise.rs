//! The hidden subcommands alone, for the tests of this crate: `limulus-supervise supervise FOLDER` and `limulus-supervise schema-check`,
//! as in the `limulus` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    let word = std::env::args_os().nth(1);
    if word.as_ref().is_some_and(|word| word == tools::SCHEMA_CHECK) {
        return tools::schema_check_main();
    }
    if word.is_some_and(|word| word == tools::CONFINE) {
        return tools::confine_main(std::env::args_os().skip(2));
    }
    tools::supervise_main(std::env::args_os().skip(2))
}
