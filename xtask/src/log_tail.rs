//! What a stage prints, passed on, with what must be told once more at the end: the reports of tests that failed, or how a
//! program ended that failed otherwise. What may not live here: what counts as failed.

use std::io::{self, Write};

/// Lines of one test's report that are told again.
const REPORT_LINES: usize = 40;
/// Lines of a program that has no such reports.
const LAST_LINES: usize = 15;
/// Bytes of a line.
const LINE_BYTES: usize = 400;

/// A writer that listens.
pub(crate) struct LogTail<'a> {
    out: &'a mut dyn Write,
    line: Vec<u8>,
    last: Vec<String>,
    reports: Vec<String>,
    /// Lines of the report that is being told.
    report: Option<usize>,
}

impl<'a> LogTail<'a> {
    pub(crate) fn new(out: &'a mut dyn Write) -> Self {
        Self { out, line: vec![], last: vec![], reports: vec![], report: None }
    }

    /// The reports of what failed, else the last lines.
    pub(crate) fn failures(&self) -> &[String] {
        if self.reports.is_empty() { &self.last } else { &self.reports }
    }

    /// A test program tells of each test that failed under `---- NAME stdout ----`, up to the line `failures:`.
    fn observe(&mut self, line: String) {
        if line.starts_with("---- ") && line.ends_with(" ----") {
            self.report = Some(0);
        } else if line == "failures:" {
            self.report = None;
        }
        if let Some(told) = &mut self.report {
            *told += 1;
            if *told <= REPORT_LINES {
                self.reports.push(line.clone());
            }
        }
        self.last.push(line);
        if self.last.len() > LAST_LINES {
            self.last.remove(0);
        }
    }
}

impl Write for LogTail<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        for byte in &bytes[..written] {
            if *byte == b'\n' {
                let line = std::mem::take(&mut self.line);
                self.observe(String::from_utf8_lossy(&line).into_owned());
            } else if self.line.len() < LINE_BYTES {
                self.line.push(*byte);
            }
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::{LAST_LINES, LINE_BYTES, LogTail, REPORT_LINES};

    fn observed(said: &str) -> String {
        let mut out = vec![];
        let mut observed = LogTail::new(&mut out);
        observed.write_all(said.as_bytes()).unwrap();
        let failures = observed.failures().iter().flat_map(|line| ["  ", line, "\n"]).collect();
        assert_eq!(String::from_utf8(out).unwrap(), said);
        failures
    }

    #[test]
    fn a_test_that_failed_is_told_again_and_the_others_are_not() {
        let said = "test a ... ok\ntest b ... FAILED\n\nfailures:\n\n---- b stdout ----\nleft: 1\n\nfailures:\n    b\n\n\
                    test result: FAILED. 1 passed; 1 failed\n";
        assert_eq!(observed(said), "  ---- b stdout ----\n  left: 1\n  \n");
        let long = format!("---- b stdout ----\n{}failures:\n", "more\n".repeat(100));
        assert_eq!(observed(&long).lines().count(), REPORT_LINES);
    }

    #[test]
    fn of_another_program_its_end_is_told() {
        let said = (0..100).map(|n| format!("line {n}\n")).collect::<Vec<_>>().concat();
        let told = observed(&said);
        assert!(told.lines().count() == LAST_LINES && told.ends_with("  line 99\n"), "{told}");
        assert_eq!(observed(&"x".repeat(5_000)), "", "a line is told when it is whole");
        assert_eq!(observed(&format!("{}\n", "x".repeat(5_000))).len(), LINE_BYTES + 3);
    }
}
