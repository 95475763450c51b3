//! A server in a separate process that lives as long as a test.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread;

/// A running server; dropping it stops it.
pub(crate) struct Server {
    process: Child,
    /// Its address, `http://127.0.0.1:PORT`.
    pub(crate) address: String,
}

impl Server {
    /// Starts the server and waits for the line with its address; `before_address` is the text before it.
    pub(crate) fn start(command: &mut Command, before_address: &str) -> Self {
        let mut process = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines().map_while(Result::ok);
        let address = lines.find_map(|line| Some(line.split_once(before_address)?.1.to_owned()));
        let address = address.and_then(|rest| rest.split_whitespace().next().map(str::to_owned));
        // Later output is read too, because a full pipe would block the server.
        thread::spawn(move || lines.for_each(drop));
        Self { process, address: address.expect("it says where it listens") }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

/// The value of a variable that names an installation. In CI, a missing installation fails the test.
pub(crate) fn installed(variable: &str, file: &str) -> Option<String> {
    let named = std::env::var(variable).ok();
    let found = named.clone().filter(|folder| std::path::Path::new(folder).join(file).exists());
    let is_ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
    assert!(found.is_some() || named.is_none() || !is_ci, "{variable} names a folder without {file}");
    if found.is_none() {
        eprintln!("skipped: {variable} does not name a folder with {file} (CONTRIBUTING.md)");
    }
    found
}
