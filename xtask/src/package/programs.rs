//! Runs the programs of the system that packages are made with: `gzip`, `sha256sum`, `md5sum`, `readelf`, `date`.

use std::io::{self, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

/// A program of the system, with texts in English.
pub(super) fn program(name: impl AsRef<Path>) -> Command {
    let mut command = Command::new(name.as_ref());
    command.env("LC_ALL", "C").env("TZ", "UTC").env_remove("GZIP");
    command
}

/// The output of a program that gets this input. A failure has what it wrote on stderr.
pub(super) fn output(command: &mut Command, input: &[u8]) -> io::Result<Vec<u8>> {
    let name = command.get_program().to_string_lossy().into_owned();
    let failed = |what: &dyn std::fmt::Display| io::Error::other(format!("{name}: {what}"));
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| failed(&error))?;
    let mut stdin = child.stdin.take().expect("stdin was asked for as a pipe");
    // Beside reading: a program may write before it has read everything. One that reads nothing closes the pipe.
    let output = std::thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(input));
        child.wait_with_output()
    })?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(failed(&format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim())))
}

/// The output of a program as text.
pub(super) fn text(command: &mut Command) -> io::Result<String> {
    String::from_utf8(output(command, &[])?).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::{output, program};

    #[test]
    fn input_becomes_output_and_a_failure_has_its_reason() {
        let much = vec![b'x'; 1 << 20];
        assert_eq!(output(&mut program("cat"), &much).unwrap(), much);
        assert_eq!(output(&mut program("true"), &much).unwrap(), b"");
        let error = output(program("sh").args(["-c", "echo reason >&2; exit 3"]), &[]).unwrap_err();
        assert!(error.to_string().contains("reason"), "{error}");
        assert!(output(&mut program("there-is-no-such-program"), &[]).unwrap_err().to_string().contains("no-such"));
    }
}
