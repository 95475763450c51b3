//! The proxy with real sockets. Servers of the test on the loopback stand for hosts, by names that only the test resolves.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use rustls::pki_types::ServerName;
use tempfile::TempDir;

use super::record::HostRefusal;
use super::*;
use crate::folder::CallFolder;

const LOOPBACK: Ipv4Addr = Ipv4Addr::LOCALHOST;
/// For what must come.
const PATIENCE: Duration = Duration::from_mins(1);

fn limits() -> ProxyLimits {
    ProxyLimits { head: PATIENCE, dial: PATIENCE, idle: idle(PATIENCE, PATIENCE), tls_port: 443 }
}

fn idle(open: Duration, half_closed: Duration) -> IdleLimits {
    IdleLimits { open, half_closed }
}

fn rules(allow: &[String]) -> HostRules {
    HostRules {
        allow: allow.to_vec(),
        deny: vec!["denied.example:*".to_owned()],
        private: true,
        ..HostRules::default()
    }
}

/// Every name of the test is this machine.
fn loopback() -> Resolver {
    Resolver::new(|_, port| Ok(vec![(LOOPBACK, port).into()]))
}

/// A proxy, and the folder of its call.
struct World {
    home: TempDir,
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl World {
    fn new(rules: HostRules, resolver: Resolver, limits: ProxyLimits) -> Self {
        let home = tempfile::tempdir().unwrap();
        let folder = std::fs::File::open(home.path()).unwrap().into();
        let recorder = NetworkRecorder::new(folder);
        let shared = Arc::new(Shared { rules, resolver, limits, recorder, connections: Slots::default() });
        let listener = TcpListener::bind((LOOPBACK, 0)).unwrap();
        let (address, own) = (listener.local_addr().unwrap(), Arc::clone(&shared));
        thread::spawn(move || accept(&own, &listener));
        Self { home, address, shared }
    }

    /// One that allows a port of this machine under the name `allowed.example`.
    fn of_port(port: u16) -> Self {
        Self::new(rules(&[format!("allowed.example:{port}")]), loopback(), limits())
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends bytes and reads until the end.
    fn answer(&self, request: &[u8]) -> Vec<u8> {
        let mut stream = self.connect();
        stream.write_all(request).unwrap();
        rest(&mut stream)
    }

    fn status(&self, request: &str) -> String {
        let answer = self.answer(request.as_bytes());
        let answer = String::from_utf8(answer).unwrap();
        answer.lines().next().unwrap_or_default().to_owned()
    }

    /// An open tunnel.
    fn tunnel(&self, host: &str, port: u16) -> TcpStream {
        let mut stream = self.connect();
        write!(stream, "CONNECT {host}:{port} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut head = vec![];
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        assert!(head.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&head));
        stream
    }

    /// The report once it says this.
    fn report(&self) -> NetworkReport {
        self.shared.recorder.finish();
        NetworkReport::read(&CallFolder::at(self.home.path())).unwrap_or_default()
    }

    fn refused(&self) -> Vec<(String, HostRefusal, u64)> {
        let refused = self.report().refused.into_iter();
        refused.map(|refused| (host::authority(&refused.host, refused.port), refused.why, refused.times)).collect()
    }
}

fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = vec![];
    // A reset is an end too.
    let _ = stream.read_to_end(&mut bytes);
    bytes
}

/// A server that answers each connection with what it received until the end of what is sent, or after `\r\n\r\n`.
fn server() -> (u16, mpsc::Receiver<Vec<u8>>) {
    let listener = TcpListener::bind((LOOPBACK, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let sender = sender.clone();
            thread::spawn(move || {
                let mut all = vec![];
                let mut piece = [0; 4096];
                while let Ok(count @ 1..) = stream.read(&mut piece) {
                    all.extend_from_slice(&piece[..count]);
                    stream.write_all(&piece[..count]).unwrap();
                    if all.ends_with(b"END") {
                        break;
                    }
                }
                let _ = sender.send(all);
            });
        }
    });
    (port, receiver)
}

#[test]
fn r69_a_tunnel_carries_both_ways_and_is_counted() {
    let (port, received) = server();
    let world = World::of_port(port);
    let mut stream = world.tunnel("allowed.example", port);
    stream.write_all(b"hello").unwrap();
    let mut bytes = [0; 5];
    stream.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"hello");
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(rest(&mut stream), b"");
    assert_eq!(received.recv_timeout(PATIENCE).unwrap(), b"hello");
    let reached = world.report().reached;
    assert_eq!(reached.len(), 1);
    assert_eq!((&*reached[0].host, reached[0].port), ("allowed.example", port));
    assert_eq!((reached[0].bytes_up, reached[0].bytes_down), (5, 5));
}

/// More than fits into any buffer, in both directions at once.
#[test]
fn r69_a_tunnel_carries_much() {
    let (port, _received) = server();
    let world = World::of_port(port);
    let mut stream = world.tunnel("allowed.example", port);
    let sent: Vec<u8> = (0..8_000_000u32).map(|at| (at % 251) as u8).collect();
    let (mut writer, all) = (stream.try_clone().unwrap(), sent.clone());
    let writing = thread::spawn(move || {
        writer.write_all(&all).unwrap();
        writer.shutdown(Shutdown::Write).unwrap();
    });
    let received = rest(&mut stream);
    writing.join().unwrap();
    assert!(received == sent, "{} of {}", received.len(), sent.len());
}

#[test]
fn r69_a_plain_request_goes_on_with_its_body_alone() {
    let (port, received) = server();
    let world = World::of_port(port);
    let request = format!(
        "POST http://allowed.example:{port}/a?key=secret HTTP/1.1\r\nHost: other.example\r\nContent-Length: 7\r\n\
         Proxy-Connection: keep-alive\r\n\r\nbodyENDGET http://other.example/ HTTP/1.1\r\n\r\n"
    );
    let expected = format!(
        "POST /a?key=secret HTTP/1.1\r\nHost: allowed.example:{port}\r\nContent-Length: 7\r\nConnection: close\r\n\r\nbodyEND"
    );
    assert_eq!(String::from_utf8(world.answer(request.as_bytes())).unwrap(), expected);
    assert_eq!(String::from_utf8(received.recv_timeout(PATIENCE).unwrap()).unwrap(), expected);
    world.report();
    let text = std::fs::read_to_string(world.home.path().join("network.json")).unwrap();
    assert!(text.contains("allowed.example") && !text.contains("secret") && !text.contains("other"), "{text}");
}

fn socks(kind: u8, host: &[u8], port: u16) -> Vec<u8> {
    let length = if kind == 3 { vec![host.len() as u8] } else { vec![] };
    [&[5, 2, 9, 0, 5, 1, 0, kind][..], &length, host, &port.to_be_bytes()].concat()
}

#[test]
fn r69_socks_carries_names_and_addresses() {
    let (port, _received) = server();
    let allow = [format!("allowed.example:{port}"), format!("127.0.0.1:{port}")];
    let world = World::new(rules(&allow), loopback(), limits());
    for (kind, host) in [(3, &b"allowed.example"[..]), (3, b"127.0.0.1"), (1, &[127, 0, 0, 1])] {
        let answer = world.answer(&[&socks(kind, host, port)[..], b"helloEND"].concat());
        assert_eq!(answer, [&[5, 0, 5, 0, 0, 1, 0, 0, 0, 0, 0, 0][..], b"helloEND"].concat(), "{kind} {host:?}");
    }
    // Mapped into IPv6 it is the same address.
    let mapped = [&[0; 10][..], &[255, 255, 127, 0, 0, 1]].concat();
    assert!(world.answer(&[&socks(4, &mapped, port)[..], b"END"].concat()).ends_with(b"END"));
    for (request, expected) in [
        (socks(3, b"other.example", port), &[5, 0, 5, 2][..]),
        (socks(3, b"allowed.example", port + 1), &[5, 0, 5, 2]),
        (socks(3, b"a b", port), &[5, 0, 5, 2]),
        (socks(3, b"", port), &[5, 0, 5, 2]),
        (socks(1, &[10, 0, 0, 1], port), &[5, 0, 5, 2]),
        (socks(2, b"", port), &[5, 0, 5, 8]),
        (vec![5, 1, 0, 5, 2, 0, 1, 127, 0, 0, 1, 0, 80], &[5, 0, 5, 7]),
        (vec![5, 1, 0, 5, 3, 0, 1, 127, 0, 0, 1, 0, 80], &[5, 0, 5, 7]),
        (vec![5, 1, 2], &[5, 255]),
        (vec![4, 1, 0, 80, 127, 0, 0, 1, 0], &[0, 91]),
    ] {
        let answer = world.answer(&request);
        assert!(answer.starts_with(expected), "{request:?}: {answer:?}");
    }
}

/// R69: what no rule allows is refused with a reason, and said once however often it is tried.
#[test]
fn r69_a_refusal_says_the_host_and_is_counted() {
    let world = World::of_port(9);
    let request = b"CONNECT Other.example:443 HTTP/1.1\r\nProxy-Authorization: secret\r\n\r\n";
    for _ in 0..3 {
        let answer = String::from_utf8(world.answer(request)).unwrap();
        assert!(answer.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{answer}");
        let body = "\r\n\r\nlimulus: Other.example:443 is not among the hosts that this command may reach\n";
        assert!(answer.ends_with(body), "{answer}");
    }
    for host in ["denied.example:80", "allowed.example:80", "user:pa55@other.example:80", "0x7f.1:80"] {
        assert_eq!(world.status(&format!("GET http://{host}/x HTTP/1.1\r\n\r\n")), "HTTP/1.1 403 Forbidden", "{host}");
    }
    let not_allowed = |host: &str, times| (host.to_owned(), HostRefusal::NotAllowed, times);
    let bad = |host: &str| (host.to_owned(), HostRefusal::BadHost, 1);
    assert_eq!(
        world.refused(),
        [
            not_allowed("other.example:443", 3),
            not_allowed("denied.example:80", 1),
            not_allowed("allowed.example:80", 1),
            bad("other.example:80"),
            bad("0x7f.1:80"),
        ]
    );
}

/// A resolver that counts how often it is asked.
fn counting(answer: impl Fn(usize) -> Vec<SocketAddr> + Send + Sync + 'static) -> (Resolver, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let own = Arc::clone(&count);
    (Resolver::new(move |_, _| Ok(answer(own.fetch_add(1, Ordering::SeqCst)))), count)
}

/// A question about a name can carry any text outside.
#[test]
fn escape_65_a_name_that_no_rule_allows_is_not_resolved() {
    let (resolver, count) = counting(|_| vec![]);
    let allow = ["*.allowed.example:443".to_owned(), "*:444".to_owned()];
    let world = World::new(rules(&allow), resolver, limits());
    for host in ["secret.evil.example:443", "a.allowed.example:80", "evilallowed.example:443", "denied.example:443"] {
        assert_eq!(world.status(&format!("CONNECT {host} HTTP/1.1\r\n\r\n")), "HTTP/1.1 403 Forbidden", "{host}");
    }
    let name = b"secret.evil.example";
    assert!(world.answer(&socks(3, name, 443)).starts_with(&[5, 0, 5, 2]));
    assert_eq!(count.load(Ordering::SeqCst), 0);
    assert_eq!(world.status("CONNECT a.allowed.example:443 HTTP/1.1\r\n\r\n"), "HTTP/1.1 502 Bad Gateway");
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

/// Names can be asked for at a server of the web, too. It is a host like any other.
#[test]
fn escape_66_names_over_https_are_a_host_that_nobody_allows() {
    let (resolver, count) = counting(|_| vec![]);
    let world = World::new(rules(&["allowed.example:443".to_owned()]), resolver, limits());
    for host in ["dns.example:443", "192.0.2.53:443", "[2001:db8::53]:443", "dns.example:853"] {
        assert_eq!(world.status(&format!("CONNECT {host} HTTP/1.1\r\n\r\n")), "HTTP/1.1 403 Forbidden", "{host}");
    }
    let plain = "GET http://dns.example/dns-query?dns=AAAB HTTP/1.1\r\nHost: allowed.example\r\n\r\n";
    assert_eq!(world.status(plain), "HTTP/1.1 403 Forbidden");
    assert!(world.answer(&socks(1, &[192, 0, 2, 53], 443)).starts_with(&[5, 0, 5, 2]));
    assert_eq!(count.load(Ordering::SeqCst), 0);
}

/// What two programs could read in two ways reaches nothing and is not resolved, also where every name is allowed.
#[test]
fn escape_69_a_host_that_reads_in_two_ways_is_none() {
    let (resolver, count) = counting(|_| vec![]);
    let world = World::new(rules(&["*:443".to_owned(), "*:80".to_owned()]), resolver, limits());
    let odd =
        ["a.example\0.evil.example", "a.example%00", "a.example..", "ex\u{e4}mple.org", "a@b.example", "a b.example"];
    for host in odd {
        for request in [
            format!("CONNECT {host}:443 HTTP/1.1\r\n\r\n"),
            format!("GET http://{host}/ HTTP/1.1\r\nHost: a.example\r\n\r\n"),
        ] {
            let status = world.status(&request);
            assert!(!status.starts_with("HTTP/1.1 2") && !status.starts_with("HTTP/1.1 502"), "{request:?}: {status}");
        }
        let answer = world.answer(&socks(3, host.as_bytes(), 443));
        assert!(!answer.starts_with(&[5, 0, 5, 0]) && !answer.starts_with(&[5, 0, 5, 4]), "{host:?}: {answer:?}");
    }
    // A line of its own in the middle of an address begins no second request.
    world.status("CONNECT a.example\r\nHost: b.example:443 HTTP/1.1\r\n\r\n");
    assert_eq!(count.load(Ordering::SeqCst), 0, "nothing of these is looked up");
    // With a dot at its end a name is the same name to rules and to the resolver.
    let denied = World::new(rules(&["*:443".to_owned()]), loopback(), limits());
    assert_eq!(denied.status("CONNECT denied.example.:443 HTTP/1.1\r\n\r\n"), "HTTP/1.1 403 Forbidden");
}

/// No rule is no permission.
#[test]
fn escape_73_an_empty_list_allows_no_host() {
    let (resolver, count) = counting(|_| vec![(LOOPBACK, 9).into()]);
    let world = World::new(HostRules { private: true, ..HostRules::default() }, resolver, limits());
    for host in ["a.example:443", "127.0.0.1:80", "[::1]:443", "localhost:80"] {
        assert_eq!(world.status(&format!("CONNECT {host} HTTP/1.1\r\n\r\n")), "HTTP/1.1 403 Forbidden", "{host}");
    }
    assert_eq!(count.load(Ordering::SeqCst), 0);
}

/// Metadata services, routers, and everything on this machine.
#[test]
fn escape_67_75_addresses_that_are_not_public() {
    let (port, _received) = server();
    let mut rules = rules(&[format!("*:{port}")]);
    rules.private = false;
    for (at, addresses) in [
        vec![[127, 0, 0, 1]],
        vec![[169, 254, 169, 254]],
        vec![[10, 0, 0, 1]],
        // One that is public does not help.
        vec![[93, 184, 215, 14], [127, 0, 0, 1]],
    ]
    .into_iter()
    .enumerate()
    {
        let addresses: Vec<SocketAddr> =
            addresses.into_iter().map(|octets| (Ipv4Addr::from(octets), port).into()).collect();
        let world = World::new(rules.clone(), Resolver::new(move |_, _| Ok(addresses.clone())), limits());
        let request = format!("CONNECT name.example:{port} HTTP/1.1\r\n\r\n");
        assert_eq!(world.status(&request), "HTTP/1.1 403 Forbidden", "{at}");
        for literal in ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "169.254.169.254", "[::ffff:a9fe:a9fe]"] {
            let request = format!("CONNECT {literal}:{port} HTTP/1.1\r\n\r\n");
            assert_eq!(world.status(&request), "HTTP/1.1 403 Forbidden", "{literal}");
        }
        let refused = world.refused();
        assert!(refused.iter().all(|refused| refused.1 == HostRefusal::Private), "{refused:?}");
    }
    // The host's own services, by the name that everybody knows.
    let world = World::new(rules, Resolver::of_system(), limits());
    assert_eq!(world.status(&format!("CONNECT localhost:{port} HTTP/1.1\r\n\r\n")), "HTTP/1.1 403 Forbidden");
}

/// A name server that answers differently each time gets one question a connection.
#[test]
fn escape_68_a_name_is_resolved_once() {
    let (port, _received) = server();
    let (resolver, count) = counting(move |time| {
        // The first answer is where the server is, the next ones are not.
        let address = if time == 0 { LOOPBACK } else { Ipv4Addr::new(127, 0, 0, 2) };
        vec![(address, port).into()]
    });
    let world = World::new(rules(&[format!("name.example:{port}")]), resolver, limits());
    let mut stream = world.tunnel("name.example", port);
    stream.write_all(b"helloEND").unwrap();
    assert_eq!(rest(&mut stream), b"helloEND");
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

/// The first message of TLS for a name.
fn hello(name: &str) -> Vec<u8> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut client = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
    let mut bytes = vec![];
    client.write_tls(&mut bytes).unwrap();
    bytes
}

/// A proxy that takes the port of the server for that of TLS.
fn tls_world(port: u16) -> World {
    let limits = ProxyLimits { tls_port: port, ..limits() };
    let allow = [format!("allowed.example:{port}"), format!("127.0.0.1:{port}")];
    World::new(rules(&allow), loopback(), limits)
}

#[test]
fn escape_72_tls_names_the_host_that_is_allowed() {
    let (port, received) = server();
    let world = tls_world(port);
    let good = hello("Allowed.example");
    // In one piece, byte by byte, and by SOCKS.
    for piece in [good.len(), 1] {
        let mut stream = world.tunnel("allowed.example", port);
        for piece in good.chunks(piece) {
            stream.write_all(piece).unwrap();
        }
        stream.write_all(b"END").unwrap();
        assert!(rest(&mut stream) == [&good[..], b"END"].concat());
    }
    let answer = world.answer(&[&socks(3, b"allowed.example", port)[..], &good, b"END"].concat());
    assert!(answer.ends_with(b"END"));
    // Clients send no name for an address.
    let mut stream = world.tunnel("127.0.0.1", port);
    stream.write_all(&[&hello("127.0.0.1")[..], b"END"].concat()).unwrap();
    assert!(rest(&mut stream).ends_with(b"END"));
    for _ in 0..4 {
        assert!(received.recv_timeout(PATIENCE).unwrap().ends_with(b"END"));
    }
    assert_eq!(world.refused(), []);
}

#[test]
fn escape_72_tls_for_another_host_is_not_carried() {
    let (port, received) = server();
    let world = tls_world(port);
    let truncated = &hello("allowed.example")[..40];
    let large = [&[22, 3, 1, 0x40, 0x00, 1, 0, 0x3f, 0xfc, 3, 3][..], &vec![0; 20_000]].concat();
    let attempts: [(&str, Vec<u8>); 7] = [
        ("allowed.example", hello("evil.example")),
        ("allowed.example", hello("sub.allowed.example")),
        ("allowed.example", hello("127.0.0.1")),
        ("127.0.0.1", hello("evil.example")),
        ("allowed.example", b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n".to_vec()),
        ("allowed.example", b"SSH-2.0-x\r\n".to_vec()),
        ("allowed.example", large),
    ];
    let count = attempts.len() as u64;
    for (host, bytes) in attempts {
        let mut stream = world.tunnel(host, port);
        // It may be closed already.
        let _ = stream.write_all(&bytes);
        assert_eq!(rest(&mut stream), b"", "{host}");
        assert_eq!(received.recv_timeout(PATIENCE).unwrap(), b"", "{host}");
    }
    // One that ends too early.
    let mut stream = world.tunnel("allowed.example", port);
    stream.write_all(truncated).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(rest(&mut stream), b"");
    assert_eq!(received.recv_timeout(PATIENCE).unwrap(), b"");
    // Without TLS at its port.
    let plain = format!("GET http://allowed.example:{port}/ HTTP/1.1\r\n\r\n");
    assert_eq!(world.status(&plain), "HTTP/1.1 403 Forbidden");
    let refused = world.refused();
    assert!(refused.iter().all(|refused| refused.1 == HostRefusal::Sni), "{refused:?}");
    assert_eq!(refused.iter().map(|refused| refused.2).sum::<u64>(), count + 1, "{refused:?}");
    assert_eq!(world.report().reached, []);
}

/// Whatever a client sends, it gets an end, and the next one is served.
#[test]
fn r69_what_is_no_request_is_ended() {
    let (port, _received) = server();
    let world = World::of_port(port);
    for garbage in [
        &b"\0\0\0\0"[..],
        b"\x16\x03\x01\x02\0\x01",
        b"\xff\xfe",
        b"get http://allowed.example/ HTTP/1.1\r\n\r\n",
        b"\r\n\r\n",
        b"SSH-2.0-x\r\n\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: allowed.example\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        let answer = world.answer(garbage);
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 400 "), "{garbage:?}: {answer:?}");
    }
    let huge = format!("GET http://allowed.example/ HTTP/1.1\r\nA: {}", "a".repeat(9_000));
    assert_eq!(world.status(&huge), "HTTP/1.1 431 Request Header Fields Too Large");
    let chunked = format!("POST http://allowed.example:{port}/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n");
    assert_eq!(world.status(&chunked), "HTTP/1.1 411 Length Required");
    // Nobody listens there any more.
    let free = TcpListener::bind((LOOPBACK, 0)).unwrap().local_addr().unwrap().port();
    let other = World::of_port(free);
    let request = format!("CONNECT allowed.example:{free} HTTP/1.1\r\n\r\n");
    assert_eq!(other.status(&request), "HTTP/1.1 502 Bad Gateway");
    assert_eq!(other.refused(), [], "it was not refused by a rule");
    world.tunnel("allowed.example", port);
}

#[test]
fn r69_times_are_bounded() {
    let (port, _received) = server();
    let short = Duration::from_millis(30);
    let allow = [format!("*:{port}"), "slow.example".to_owned()];
    let slow = Resolver::new(|name, port| {
        if name == "slow.example" {
            thread::park_timeout(PATIENCE);
        }
        Ok(vec![(LOOPBACK, port).into()])
    });
    // A head that does not come, one that comes in part, one of SOCKS. A busy machine may see none of it in time.
    let world = World::new(rules(&allow), loopback(), ProxyLimits { head: short, ..limits() });
    assert_eq!(rest(&mut world.connect()), b"");
    let ended = world.status("CONNECT allowed");
    assert!(ended.is_empty() || ended == "HTTP/1.1 408 Request Timeout", "{ended}");
    assert!([5, 0].starts_with(&world.answer(&[5, 1, 0, 5])));
    // A name whose server does not answer.
    let world = World::new(rules(&allow), slow, ProxyLimits { dial: short, ..limits() });
    assert_eq!(world.status("CONNECT slow.example:80 HTTP/1.1\r\n\r\n"), "HTTP/1.1 502 Bad Gateway");
    assert!(world.answer(&socks(3, b"slow.example", 80)).starts_with(&[5, 0, 5, 4]));
    // A tunnel in which nothing moves.
    let world = World::new(rules(&allow), loopback(), ProxyLimits { idle: idle(short, PATIENCE), ..limits() });
    let mut stream = world.tunnel("allowed.example", port);
    assert_eq!(rest(&mut stream), b"");
}

/// A client that was killed, while its host sends nothing.
#[test]
fn r69_a_request_of_a_client_that_has_gone_ends() {
    let (port, received) = server();
    let limits = ProxyLimits { idle: idle(PATIENCE, Duration::from_millis(30)), ..limits() };
    let world = World::new(rules(&[format!("allowed.example:{port}")]), loopback(), limits);
    let request = format!("GET http://allowed.example:{port}/ HTTP/1.1\r\n\r\n");
    let mut client = world.connect();
    client.write_all(request.as_bytes()).unwrap();
    client.read_exact(&mut [0; 16]).unwrap();
    assert!(received.try_recv().is_err(), "the host is still waited for");
    client.shutdown(Shutdown::Write).unwrap();
    received.recv_timeout(PATIENCE).unwrap();
    assert!(rest(&mut client).ends_with(b"Connection: close\r\n\r\n"));
}

/// Those that have no place wait, and get one.
#[test]
fn r69_connections_are_bounded() {
    let (port, _received) = server();
    let world = World::of_port(port);
    let mut open: Vec<_> = (0..PROXY_CONNECTIONS).map(|_| world.tunnel("allowed.example", port)).collect();
    let mut next = world.connect();
    write!(next, "CONNECT allowed.example:{port} HTTP/1.1\r\n\r\n").unwrap();
    next.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let mut byte = [0];
    assert!(next.read(&mut byte).is_err(), "it is served although {PROXY_CONNECTIONS} others are");
    drop(open.pop());
    next.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(next.read(&mut byte).unwrap(), 1);
}

/// The report has a bound, and so has what the model receives of it.
#[test]
fn r69_the_report_is_bounded() {
    let world = World::of_port(9);
    for number in 0..NETWORK_HOSTS_AND_MORE {
        world.shared.recorder.refuse(&format!("{}.example", "a".repeat(number + 1)), 443, HostRefusal::NotAllowed);
    }
    let report = world.report();
    assert_eq!((report.refused.len(), report.more_refused), (crate::limits::NETWORK_HOSTS, 3));
    let why = "not among the hosts that this command may reach";
    let expected = format!("a.example:443 ({why}), aa.example:443 ({why}) and {} more", NETWORK_HOSTS_AND_MORE - 2);
    assert_eq!(refusals(&report, 2), Some(expected));
    assert_eq!(refusals(&NetworkReport::default(), 2), None);
    // After the end nothing is written any more.
    world.shared.recorder.trouble("late".to_owned());
    assert_eq!(world.report().trouble, None);
}

/// A full disk, or a folder that is gone.
#[test]
fn r69_a_report_that_cannot_be_written_costs_nothing_else() {
    let (port, _received) = server();
    let world = World::of_port(port);
    std::fs::remove_dir_all(world.home.path()).unwrap();
    world.status("CONNECT other.example:443 HTTP/1.1\r\n\r\n");
    world.tunnel("allowed.example", port);
    world.shared.recorder.finish();
}

const NETWORK_HOSTS_AND_MORE: usize = crate::limits::NETWORK_HOSTS + 3;

/// A command that writes into its folder writes nothing that the model receives as this report's.
#[test]
fn r69_a_report_with_other_texts_is_none() {
    let home = tempfile::tempdir().unwrap();
    let call = CallFolder::at(home.path());
    assert_eq!(NetworkReport::read(&call), None);
    for (text, is_read) in [
        (r#"{"refused":[{"host":"a.example","port":1,"why":"sni","times":1}],"reached":[]}"#, true),
        (r#"{"refused":[{"host":"a] say","port":1,"why":"sni","times":1}]}"#, false),
        (r#"{"refused":[{"host":"a\nb","port":1,"why":"sni","times":1}]}"#, false),
        ("{", false),
    ] {
        std::fs::write(home.path().join("network.json"), text).unwrap();
        assert_eq!(NetworkReport::read(&call).is_some(), is_read, "{text}");
    }
}
