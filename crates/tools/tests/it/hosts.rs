//! The network of a sandboxed command by hosts: the real supervisor, the real sandbox and real sockets. A server of the test stands
//! for a host, under the name `localhost`.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use confine::{NetworkAccess, Profile, ResourceLimits, Tier, WorkspaceAccess};
use serde_json::{Value, json};
use tempfile::TempDir;

const SUPERVISOR: &str = env!("CARGO_BIN_EXE_limulus-supervise");
/// For what must come.
const PATIENCE: Duration = Duration::from_mins(1);

/// Perl functions: `speak TEXT` sends a text to the proxy and returns what comes until the end, `begin TEXT` only the first bytes.
const PROXY: &str = r#"use Socket; sub at { my ($port, $kind) = @_; socket(my $s, AF_INET, $kind // SOCK_STREAM, 0) or die "no socket\n";
    connect($s, sockaddr_in($port, INADDR_LOOPBACK)) or die "cannot connect: " . ($! + 0) . "\n"; $s }
    sub proxy { my ($port) = ($ENV{http_proxy} // "") =~ /:(\d+)$/ or die "no proxy\n"; at($port) }
    sub speak { my $s = proxy(); syswrite $s, $_[0]; shutdown $s, 1; local $/; <$s> // "" }
    sub begin { my $s = proxy(); syswrite $s, $_[0]; sysread $s, my $t, 4096; push @open, $s; $t }
    $| = 1;"#;

/// A workspace and a folder of calls.
struct World {
    home: TempDir,
}

/// A supervisor that was started.
struct Call {
    supervisor: Child,
    folder: PathBuf,
}

impl World {
    /// None where nothing like it can be set up.
    fn new() -> Option<Self> {
        let support = tools::sandbox_support(Path::new(SUPERVISOR)).unwrap();
        if support.tier() != Tier::A {
            eprintln!("skipped: {:?}", support.failures);
            return None;
        }
        let home = tempfile::tempdir().unwrap();
        for folder in ["work", "temporary", "calls"] {
            fs::create_dir(home.path().join(folder)).unwrap();
        }
        Some(Self { home })
    }

    fn profile(&self, call: &Path) -> Profile {
        Profile {
            workspace: self.home.path().join("work"),
            folder: self.home.path().join("work"),
            access: WorkspaceAccess::Workspace,
            temporary: self.home.path().join("temporary"),
            writable: vec![],
            approved: vec![],
            caches: None,
            hidden: vec![self.home.path().join("calls")],
            read_only: vec![],
            network: NetworkAccess::Proxy,
            limits: ResourceLimits::default(),
            tier: Tier::A,
            report: call.join("sandbox.json"),
        }
    }

    /// Starts a Perl script under a supervisor, with these rules and this network.
    fn start(&self, script: &str, hosts: Option<Value>, network: NetworkAccess) -> Call {
        let folder = self.home.path().join("calls/one");
        let script = format!("{PROXY}\n{script}");
        let command = format!("perl -e '{script}'");
        let sandbox = Profile { network, ..self.profile(&folder) };
        let mut job = json!({ "command": command, "folder": self.home.path().join("work"), "call": folder,
            "limit_ms": 120_000, "sandbox": sandbox });
        if let Some(hosts) = hosts {
            job["hosts"] = hosts;
        }
        let mut supervisor = Command::new(SUPERVISOR);
        supervisor.args(["supervise", "one"]).stdin(Stdio::piped()).stdout(Stdio::piped()).env_clear();
        let mut supervisor = supervisor.env("PATH", std::env::var_os("PATH").unwrap()).spawn().unwrap();
        supervisor.stdin.take().unwrap().write_all(job.to_string().as_bytes()).unwrap();
        Call { supervisor, folder }
    }

    /// Runs a script to its end. Returns what it printed, and the report on its network.
    fn run(&self, script: &str, hosts: &Value) -> (String, Value) {
        let call = self.start(script, Some(hosts.clone()), NetworkAccess::Proxy);
        call.ended()
    }
}

impl Call {
    fn ended(mut self) -> (String, Value) {
        assert!(self.supervisor.wait().unwrap().success());
        let record: Value = serde_json::from_str(&fs::read_to_string(self.folder.join("exit.json")).unwrap()).unwrap();
        assert_eq!(record["trouble"], Value::Null);
        let report = fs::read_to_string(self.folder.join("network.json"));
        let report = report.map_or(Value::Null, |report| serde_json::from_str(&report).unwrap());
        (fs::read_to_string(self.folder.join("output")).unwrap(), report)
    }
}

/// A server that sends everything back, ends behind the head of a request, and says when a connection begins and ends.
fn server() -> (u16, mpsc::Receiver<&'static str>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let sender = sender.clone();
            thread::spawn(move || {
                let _ = sender.send("begun");
                let mut piece = [0; 4096];
                while let Ok(count @ 1..) = stream.read(&mut piece) {
                    let _ = stream.write_all(&piece[..count]);
                    if piece[..count].ends_with(b"\r\n\r\n") {
                        break;
                    }
                }
                let _ = sender.send("ended");
            });
        }
    });
    (port, receiver)
}

fn private(allow: &[String]) -> Value {
    json!({ "allow": allow, "deny": [], "private": true })
}

/// R69: a command reaches the hosts of its rules by each kind of proxy, and what it reached is recorded.
#[test]
fn r69_a_command_reaches_the_hosts_of_its_rules() {
    let Some(world) = World::new() else { return };
    let (port, _events) = server();
    let script = format!(
        r#"print speak("CONNECT other.example:{port} HTTP/1.1\r\n\r\n");
        print speak("CONNECT localhost:{port} HTTP/1.1\r\n\r\ntunnel"), "\n";
        print speak("GET http://localhost:{port}/path?query HTTP/1.1\r\nHost: x\r\n\r\n"), "\n";
        print substr(speak(pack("C*", 5, 1, 0, 5, 1, 0, 3, 9) . "localhost" . pack("n", {port}) . "socks"), 12), "\n";"#
    );
    let (printed, report) = world.run(&script, &private(&[format!("localhost:{port}")]));
    let refusal = format!("limulus: other.example:{port} is not among the hosts that this command may reach\n");
    assert!(printed.contains(&(refusal + "HTTP/1.1 200 ")), "{printed}");
    assert!(printed.contains("\r\n\r\ntunnel\n"), "{printed}");
    assert!(printed.contains(&format!("GET /path?query HTTP/1.1\r\nHost: localhost:{port}\r\n")), "{printed}");
    assert!(printed.ends_with("\nsocks\n"), "{printed}");
    let refused = json!([{ "host": "other.example", "port": port, "why": "not_allowed", "times": 1 }]);
    assert_eq!(report["refused"], refused);
    let reached = report["reached"].as_array().unwrap();
    assert_eq!(reached.len(), 1, "{report}");
    assert_eq!((&reached[0]["host"], &reached[0]["port"]), (&json!("localhost"), &json!(port)));
    assert!(reached[0]["bytes_up"].as_u64().unwrap() > 11 && reached[0]["bytes_down"].as_u64().unwrap() > 11);
    assert!(!report.to_string().contains("path"), "{report}");
}

/// Past the proxy there is nothing, whatever the rules are.
#[test]
fn escape_63_64_75_a_command_with_a_proxy_connects_to_nothing_itself() {
    let Some(world) = World::new() else { return };
    let (port, events) = server();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.set_nonblocking(true).unwrap();
    let udp_port = udp.local_addr().unwrap().port();
    let script = format!(
        r#"delete @ENV{{grep /proxy/i, keys %ENV}}; eval {{ at({port}) }}; print $@;
        my $u = at({udp_port}, SOCK_DGRAM); send($u, "x", 0);
        socket(my $s, AF_INET, SOCK_STREAM, 0); $! = 0; connect($s, sockaddr_in(443, inet_aton("192.0.2.1"))); print $! + 0, "\n";
        print defined(gethostbyname("name.example")) ? "resolved" : "unresolved";"#
    );
    let hosts = json!({ "allow": ["*", format!("*:{port}"), format!("*:{udp_port}")], "private": true });
    let (printed, report) = world.run(&script, &hosts);
    assert_eq!(printed, "cannot connect: 111\n101\nunresolved");
    assert_eq!(report, Value::Null);
    assert!(events.try_recv().is_err() && udp.recv(&mut [0; 8]).is_err());
}

/// The services of this machine are no hosts of the internet, by any name.
#[test]
fn escape_67_75_services_of_the_host_are_not_reached_through_the_proxy() {
    let Some(world) = World::new() else { return };
    let (port, events) = server();
    let script = format!(
        r#"for my $host ("localhost", "127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "2130706433", "0x7f.1", "127.1", "127.0.0.1.", "169.254.169.254") {{
            print substr(speak("CONNECT $host:{port} HTTP/1.1\r\n\r\n"), 9, 3), " "; }}"#
    );
    let hosts = json!({ "allow": [format!("*:{port}")], "deny": [], "private": false });
    let (printed, report) = world.run(&script, &hosts);
    assert_eq!(printed, "403 ".repeat(9));
    let refused = report["refused"].as_array().unwrap();
    assert!(refused.iter().all(|refused| refused["why"] == "private" || refused["why"] == "bad_host"), "{report}");
    assert_eq!(report["reached"], json!([]));
    assert!(events.try_recv().is_err());
}

/// Without rules, and without a namespace of its own, a command has no proxy.
#[test]
fn escape_63_no_rules_no_proxy() {
    let Some(world) = World::new() else { return };
    let script = r#"print grep(/proxy/i, keys %ENV) ? "proxy" : "none"; opendir(D, "/proc/net"); print -s "/proc/net/tcp" // ""; "#;
    for (hosts, network) in [(None, NetworkAccess::Proxy), (Some(private(&["*".to_owned()])), NetworkAccess::None)] {
        let call = world.start(script, hosts, network);
        let folder = call.folder.clone();
        let (printed, report) = call.ended();
        assert!(printed.starts_with("none"), "{printed}");
        assert_eq!(report, Value::Null);
        fs::remove_dir_all(folder).unwrap();
    }
    // An empty list allows nothing.
    let (printed, _) = world.run(r#"print substr(speak("CONNECT localhost:80 HTTP/1.1\r\n\r\n"), 9, 3)"#, &json!({}));
    assert_eq!(printed, "403");
}

/// Nothing of the supervisor's is open in the command, also not what the proxy has.
#[test]
fn escape_35_a_command_inherits_nothing_of_its_proxy() {
    let Some(world) = World::new() else { return };
    let (port, _events) = server();
    let script = format!(
        r#"begin("CONNECT localhost:{port} HTTP/1.1\r\n\r\n"); close $_ for @open;
        system(q(for fd in /proc/self/fd/*; do readlink $fd; done | cut -d: -f1 | sort | uniq -c | tr -s " "))"#
    );
    let (printed, _) = world.run(&script, &private(&[format!("localhost:{port}")]));
    assert_eq!(printed.lines().filter(|line| line.contains("socket")).count(), 0, "{printed}");
}

/// A tunnel to a host that never ends holds up nobody: neither a command that ends, nor one that is killed.
#[test]
fn r69_the_end_of_a_command_ends_its_tunnels() {
    let (port, events) = server();
    for end in ["exit 0", "kill 9, $$", "close $_ for @open"] {
        let Some(world) = World::new() else { return };
        let script = format!(r#"print begin("CONNECT localhost:{port} HTTP/1.1\r\n\r\n"); {end};"#);
        let (printed, report) = world.run(&script, &private(&[format!("localhost:{port}")]));
        assert!(printed.starts_with("HTTP/1.1 200 "), "{end}: {printed}");
        assert_eq!(report["reached"][0]["bytes_up"], 0);
        for expected in ["begun", "ended"] {
            assert_eq!(events.recv_timeout(PATIENCE), Ok(expected), "{end}");
        }
    }
}

/// The report is there while the command runs, for who watches it.
#[test]
fn r69_a_refusal_is_reported_while_the_command_runs() {
    let Some(world) = World::new() else { return };
    let script = r#"speak("CONNECT other.example:443 HTTP/1.1\r\n\r\n"); print "refused\n"; sleep 600"#;
    let mut call = world.start(script, Some(private(&[])), NetworkAccess::Proxy);
    let mut notices = call.supervisor.stdout.take().unwrap();
    while !fs::read_to_string(call.folder.join("output")).is_ok_and(|output| output == "refused\n") {
        // One byte for each change of the folder.
        notices.read_exact(&mut [0]).unwrap();
    }
    let report: Value = serde_json::from_slice(&fs::read(call.folder.join("network.json")).unwrap()).unwrap();
    assert_eq!(report["refused"][0]["host"], "other.example");
    fs::write(call.folder.join("control"), "e").unwrap();
    assert_eq!(call.ended().1, report);
}
