//! The files with which the system starts `limulus serve`.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use super::UnitOf;
use crate::error::{CliError, Exit};

/// Time after the drain within which the service must have stopped.
const STOP_S: u64 = 20;

/// The unit for this service manager. A path that its format cannot hold is refused.
pub(super) fn unit(
    system: UnitOf,
    program: &Path,
    home: &Path,
    (drain, listens_at): (Duration, SocketAddr),
) -> Result<String, CliError> {
    let stop_s = drain.as_secs() + STOP_S;
    match system {
        UnitOf::Systemd => Ok(systemd(text(program)?, text(home)?, stop_s)),
        UnitOf::SystemdSocket => Ok(systemd_socket(listens_at)),
        UnitOf::Launchd => Ok(launchd(xml(program)?, xml(home)?, stop_s)),
    }
}

/// The path as a text: service managers read UTF-8 only.
fn text(path: &Path) -> Result<&str, CliError> {
    path.to_str().ok_or_else(|| unusable(path, "is not UTF-8"))
}

/// The path for a property list. XML 1.0 has no other control characters.
fn xml(path: &Path) -> Result<&str, CliError> {
    let text = text(path)?;
    let is_lost = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    if text.contains(is_lost) { Err(unusable(path, "has a control character")) } else { Ok(text) }
}

fn unusable(path: &Path, why: &str) -> CliError {
    CliError::Refused {
        exit: Exit::Refused,
        what: format!("no unit can name {}: it {why}", path.to_string_lossy().escape_debug()),
        hint: "use a home and a program with another path".into(),
    }
}

/// A word in double quotes, with the escapes that systemd reads there. A percent sign starts a specifier.
fn quoted(text: &str) -> String {
    let mut word = String::from("\"");
    for c in text.chars() {
        match c {
            '\\' | '"' => word.extend(['\\', c]),
            '%' => word.push_str("%%"),
            '\n' => word.push_str("\\n"),
            '\t' => word.push_str("\\t"),
            '\r' => word.push_str("\\r"),
            c if c.is_ascii_control() => {
                // Writing to a String cannot fail.
                let _ = write!(word, "\\x{:02x}", u32::from(c));
            }
            c => word.push(c),
        }
    }
    word.push('"');
    word
}

/// `KillMode=process`: running commands continue under their supervisors. `Delegate=yes`: each has a cgroup of its own, and with
/// `DelegateSubgroup`, which systemd has since version 254, a limit of memory: the service itself is beside them. `StartLimitIntervalSec=0`: a service whose home
/// is owned by a process that does not answer is started again until it has the home.
fn systemd(program: &str, home: &str, stop_s: u64) -> String {
    // A dollar sign starts a variable in a command line.
    let program = quoted(program).replace('$', "$$");
    let home = quoted(&format!("LIMULUS_HOME={home}"));
    format!(
        "[Unit]\n\
         Description=Limulus, an agent runtime\n\
         StartLimitIntervalSec=0\n\
         \n\
         [Service]\n\
         Type=notify\n\
         ExecStart={program} serve\n\
         Environment={home}\n\
         KillMode=process\n\
         Delegate=yes\n\
         DelegateSubgroup=owner\n\
         TimeoutStopSec={stop_s}\n\
         Restart=on-failure\n\
         RestartSec=1\n\
         \n\
         [Install]\n\
         WantedBy=default.target\n"
    )
}

/// The socket of `limulus.service`: systemd listens, also while the service is started again.
fn systemd_socket(listens_at: SocketAddr) -> String {
    format!(
        "[Unit]\n\
         Description=The port of Limulus, an agent runtime\n\
         \n\
         [Socket]\n\
         ListenStream={listens_at}\n\
         NoDelay=yes\n\
         \n\
         [Install]\n\
         WantedBy=sockets.target\n"
    )
}

fn launchd(program: &str, home: &str, stop_s: u64) -> String {
    let text = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let (program, home) = (text(program), text(home));
    format!(
        r#"<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
  <key>Label</key><string>limulus</string>
  <key>ProgramArguments</key><array><string>{program}</string><string>serve</string></array>
  <key>EnvironmentVariables</key><dict><key>LIMULUS_HOME</key><string>{home}</string></dict>
  <key>RunAtLoad</key><true/>
  <key>KeepAlive</key><dict><key>SuccessfulExit</key><false/></dict>
  <key>AbandonProcessGroup</key><true/>
  <key>ExitTimeOut</key><integer>{stop_s}</integer>
</dict>
</plist>
"#
    )
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    const ASKED: (Duration, SocketAddr) = (Duration::from_secs(10), gateway::http::DEFAULT_ADDRESS);

    #[test]
    fn r15_units_leave_commands_alone_and_quote_what_is_in_a_path() {
        let given = |system| unit(system, Path::new("/opt/a b/limulus"), Path::new("/h/50%\"<x>"), ASKED).unwrap();
        let systemd = given(UnitOf::Systemd);
        for line in [
            "ExecStart=\"/opt/a b/limulus\" serve",
            "Environment=\"LIMULUS_HOME=/h/50%%\\\"<x>\"",
            "KillMode=process",
            "Delegate=yes",
            "DelegateSubgroup=owner",
            "TimeoutStopSec=30",
            "Type=notify",
            "StartLimitIntervalSec=0",
        ] {
            assert!(systemd.lines().any(|given| given == line), "{line}\n{systemd}");
        }
        assert!(given(UnitOf::SystemdSocket).contains("\nListenStream=127.0.0.1:18789\n"));
        let launchd = given(UnitOf::Launchd);
        for part in ["<string>/opt/a b/limulus</string>", "<string>/h/50%\"&lt;x&gt;</string>", "<integer>30</integer>"]
        {
            assert!(launchd.contains(part), "{part}\n{launchd}");
        }
        assert!(launchd.contains("<key>AbandonProcessGroup</key><true/>"));
    }

    #[test]
    fn r15_a_control_character_in_a_path_adds_no_line_to_a_unit() {
        let given = |system, home: &OsStr| unit(system, Path::new("/opt/li\nmulus"), Path::new(home), ASKED);
        let plain = unit(UnitOf::Systemd, Path::new("/l"), Path::new("/h"), ASKED).unwrap();
        let home = OsStr::new("/h\nExecStartPre=\"x\"\r\u{1b}\u{7f}\t\\");
        let systemd = given(UnitOf::Systemd, home).unwrap();
        assert_eq!(systemd.lines().count(), plain.lines().count(), "{systemd}");
        for line in [
            r#"ExecStart="/opt/li\nmulus" serve"#,
            r#"Environment="LIMULUS_HOME=/h\nExecStartPre=\"x\"\r\x1b\x7f\t\\""#,
        ] {
            assert!(systemd.lines().any(|given| given == line), "{line}\n{systemd}");
        }
        assert!(!systemd.contains(|c: char| c.is_control() && c != '\n'), "{systemd}");
        // A property list has no such escapes.
        assert_eq!(given(UnitOf::Launchd, home).unwrap_err().exit(), Exit::Refused);
        assert!(given(UnitOf::Launchd, OsStr::new("/a\nb")).unwrap().contains("<string>/a\nb</string>"));
        for system in [UnitOf::Systemd, UnitOf::Launchd] {
            assert_eq!(given(system, OsStr::from_bytes(b"/h\xff")).unwrap_err().exit(), Exit::Refused);
        }
    }
}
