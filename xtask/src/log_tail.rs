//! Passes on the output of a stage and keeps what is repeated at the end: the reports of failed tests, or else the last
//! lines.

use std::io::{self, Write};

/// Maximum lines of a test's report that are repeated.
const REPORT_LINES: usize = 40;
/// Last lines that are kept of a program without such reports.
const LAST_LINES: usize = 15;
/// Maximum bytes of a kept line.
const LINE_BYTES: usize = 400;

/// A writer that also keeps the failures.
pub(crate) struct LogTail<'a> {
    out: &'a mut dyn Write,
    line: Vec<u8>,
    last: Vec<String>,
    reports: Vec<String>,
    /// Lines so far of the current report; none outside of a report.
    report: Option<usize>,
}

impl<'a> LogTail<'a> {
    pub(crate) fn new(out: &'a mut dyn Write) -> Self {
        Self { out, line: vec![], last: vec![], reports: vec![], report: None }
    }

    /// The reports of failed tests; if there are none, the last lines.
    pub(crate) fn failures(&self) -> &[String] {
        if self.reports.is_empty() { &self.last } else { &self.reports }
    }

    /// A test program prints the report of a failed test between `---- NAME stdout ----` and the line `failures:`.
    fn observe(&mut self, line: String) {
        if line.starts_with("---- ") && line.ends_with(" ----") {
            self.report = Some(0);
        } else if line == "failures:" {
            self.report = None;
        }
        if let Some(lines) = &mut self.report {
            *lines += 1;
            if *lines <= REPORT_LINES {
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

    fn observed(printed: &str) -> String {
        let mut out = vec![];
        let mut observed = LogTail::new(&mut out);
        observed.write_all(printed.as_bytes()).unwrap();
        let failures = observed.failures().iter().flat_map(|line| ["  ", line, "\n"]).collect();
        assert_eq!(String::from_utf8(out).unwrap(), printed);
        failures
    }

    #[test]
    fn only_the_reports_of_failed_tests_are_repeated() {
        let printed = "test a ... ok\ntest b ... FAILED\n\nfailures:\n\n---- b stdout ----\nleft: 1\n\nfailures:\n    b\n\n\
                    test result: FAILED. 1 passed; 1 failed\n";
        assert_eq!(observed(printed), "  ---- b stdout ----\n  left: 1\n  \n");
        let long = format!("---- b stdout ----\n{}failures:\n", "more\n".repeat(100));
        assert_eq!(observed(&long).lines().count(), REPORT_LINES);
    }

    #[test]
    fn the_last_lines_of_another_program_are_repeated() {
        let printed = (0..100).map(|n| format!("line {n}\n")).collect::<Vec<_>>().concat();
        let tail = observed(&printed);
        assert!(tail.lines().count() == LAST_LINES && tail.ends_with("  line 99\n"), "{tail}");
        assert_eq!(observed(&"x".repeat(5_000)), "", "an unfinished line is not kept");
        assert_eq!(observed(&format!("{}\n", "x".repeat(5_000))).len(), LINE_BYTES + 3);
    }
}
