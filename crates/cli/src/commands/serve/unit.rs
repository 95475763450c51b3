//! The files with which the system starts `limulus serve`.

use std::path::Path;
use std::time::Duration;

use super::UnitOf;

/// Time after the drain within which the service must have stopped.
const STOP_S: u64 = 20;

pub(super) fn unit(system: UnitOf, program: &Path, home: &Path, drain: Duration) -> String {
    let (program, home) = (program.to_string_lossy(), home.to_string_lossy());
    let stop_s = drain.as_secs() + STOP_S;
    match system {
        UnitOf::Systemd => systemd(&program, &home, stop_s),
        UnitOf::Launchd => launchd(&program, &home, stop_s),
    }
}

/// `KillMode=process`: running commands continue under their supervisors.
fn systemd(program: &str, home: &str, stop_s: u64) -> String {
    let quoted = |text: &str| {
        let text = text.replace('\\', r"\\").replace('"', "\\\"").replace('%', "%%");
        format!("\"{text}\"")
    };
    // A dollar sign starts a variable in a command line.
    let program = quoted(program).replace('$', "$$");
    let home = quoted(&format!("LIMULUS_HOME={home}"));
    format!(
        "[Unit]\n\
         Description=Limulus, an agent runtime\n\
         \n\
         [Service]\n\
         Type=notify\n\
         ExecStart={program} serve\n\
         Environment={home}\n\
         KillMode=process\n\
         TimeoutStopSec={stop_s}\n\
         Restart=on-failure\n\
         RestartSec=1\n\
         \n\
         [Install]\n\
         WantedBy=default.target\n"
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
    use super::*;

    #[test]
    fn r15_units_leave_commands_alone_and_quote_what_is_in_a_path() {
        let given =
            |system| unit(system, Path::new("/opt/a b/limulus"), Path::new("/h/50%\"<x>"), Duration::from_secs(10));
        let systemd = given(UnitOf::Systemd);
        for line in [
            "ExecStart=\"/opt/a b/limulus\" serve",
            "Environment=\"LIMULUS_HOME=/h/50%%\\\"<x>\"",
            "KillMode=process",
            "TimeoutStopSec=30",
            "Type=notify",
        ] {
            assert!(systemd.lines().any(|given| given == line), "{line}\n{systemd}");
        }
        let launchd = given(UnitOf::Launchd);
        for part in ["<string>/opt/a b/limulus</string>", "<string>/h/50%\"&lt;x&gt;</string>", "<integer>30</integer>"]
        {
            assert!(launchd.contains(part), "{part}\n{launchd}");
        }
        assert!(launchd.contains("<key>AbandonProcessGroup</key><true/>"));
    }
}
