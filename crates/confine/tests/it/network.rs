//! Escapes by sockets.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process::{Child, Stdio};
use std::time::Duration;

use confine::{ConfineReport, LayerState, NetworkAccess, Profile, Tier};

use crate::support::{BOTH, ONLY_A, World, each, refused};

const INET: i32 = libc::AF_INET;

/// The error of making a socket: 0 if it succeeds.
fn socket_error(world: &World, profile: &Profile, arguments: &str) -> String {
    let script = format!("$! = 0; syscall({}, {arguments}); print $! + 0", libc::SYS_socket);
    let output = world.command(profile, &["perl", "-e", &script]).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Also where the network of the host is allowed.
#[test]
fn escape_37_to_46_families_of_sockets() {
    let refused = [
        format!("{}, 1, 0", libc::AF_UNIX),
        format!("{}, 2, 0", libc::AF_UNIX),
        format!("{}, 1, 0", libc::AF_VSOCK),
        format!("{}, 3, 0", libc::AF_PACKET),
        format!("{INET}, 3, 1"),
        format!("{INET}, {}, 1", 3 | libc::SOCK_CLOEXEC),
        format!("{}, 3, {}", libc::AF_NETLINK, libc::NETLINK_KOBJECT_UEVENT),
        format!("{}, 3, {}", libc::AF_NETLINK, libc::NETLINK_AUDIT),
        format!("{INET}, 1, {}", libc::IPPROTO_MPTCP),
        format!("{INET}, 1, {}", libc::IPPROTO_SCTP),
        format!("{}, 5, 0", libc::AF_ALG),
    ];
    each(&BOTH, |world| {
        for network in [NetworkAccess::None, NetworkAccess::Host] {
            for arguments in &refused {
                let profile = Profile { network, ..world.profile() };
                let error = socket_error(world, &profile, arguments);
                assert_eq!(error, libc::EPERM.to_string(), "socket({arguments}) {network:?} {}", world.name());
            }
        }
    });
}

#[test]
fn sockets_that_programs_need() {
    let allowed = [
        format!("{INET}, 1, 0"),
        format!("{INET}, 2, 17"),
        format!("{}, 1, 0", libc::AF_INET6),
        format!("{}, 3, 0", libc::AF_NETLINK),
    ];
    each(&BOTH, |world| {
        for arguments in &allowed {
            let host = Profile { network: NetworkAccess::Host, ..world.profile() };
            assert_eq!(socket_error(world, &host, arguments), "0", "socket({arguments}) {}", world.name());
            let none = socket_error(world, &world.profile(), arguments);
            let expected = if world.tier == Tier::A { "0".to_owned() } else { libc::EPERM.to_string() };
            assert_eq!(none, expected, "socket({arguments}) {}", world.name());
        }
        let pair = "use Socket; socketpair(A, B, AF_UNIX, SOCK_STREAM, 0) or die; syswrite A, qq(x); sysread B, $x, 1; print $x";
        assert_eq!(world.succeed(&format!("perl -e '{pair}'")), "x");
    });
}

/// The sockets of a Docker daemon, an agent of SSH, a message bus, a screen and of Limulus itself are all such ones.
#[test]
fn escape_38_to_44_a_socket_in_the_file_system() {
    each(&BOTH, |world| {
        let path = world.at("outside/socket");
        let _listener = UnixListener::bind(&path).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        let script = r#"perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0) && connect(S, pack_sockaddr_un("$ENV{OUT}/socket")) or exit 1'"#;
        world.refuse(38, script);
        world.control(38, script);
    });
}

#[test]
fn escape_42_an_abstract_socket() {
    each(&BOTH, |world| {
        let name = format!("limulus-test-{}-{:?}-{:?}", std::process::id(), world.user, world.tier);
        let _listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        let script = format!(
            r#"perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0) && connect(S, pack("Sa*", 1, "\0{name}")) or exit 1'"#
        );
        world.refuse(42, &script);
        world.control(42, &script);
    });
}

#[test]
fn escape_63_64_75_services_on_the_loopback_of_the_host() {
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = tcp.local_addr().unwrap().port();
    let connect = format!(
        r"perl -MSocket -e 'socket(S, AF_INET, SOCK_STREAM, 0) && connect(S, sockaddr_in({port}, INADDR_LOOPBACK)) or exit 1'"
    );
    refused(75, &BOTH, &connect);
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.set_nonblocking(true).unwrap();
    let port = udp.local_addr().unwrap().port();
    let send = format!(
        r#"perl -MSocket -e 'socket(S, AF_INET, SOCK_DGRAM, 0); send(S, "x", 0, sockaddr_in({port}, INADDR_LOOPBACK))'"#
    );
    each(&BOTH, |world| {
        world.run(&send);
        assert!(udp.recv(&mut [0; 8]).is_err(), "escape 64 {}", world.name());
        world.control(64, &send);
        udp.recv(&mut [0; 8]).unwrap();
    });
    // The same with the network of the host.
    each(&BOTH, |world| {
        let profile = Profile { network: NetworkAccess::Host, ..world.profile() };
        let output = world.command(&profile, &["sh", "-c", &connect]).output().unwrap();
        assert!(output.status.success(), "{}{output:?}", world.name());
    });
}

#[test]
fn escape_64_there_is_no_way_out_of_the_network_namespace() {
    each(&ONLY_A, |world| {
        let interfaces = world.succeed("tail -n +3 /proc/net/dev | cut -d: -f1");
        assert_eq!(interfaces, "lo");
        // An address for documentation, which nobody has.
        let script = "perl -MSocket -e 'socket(S, AF_INET, SOCK_DGRAM, 0); $! = 0; send(S, 1, 0, sockaddr_in(53, inet_aton(q(192.0.2.1)))); print $! + 0'";
        assert_eq!(world.succeed(script), libc::ENETUNREACH.to_string());
    });
}

#[test]
fn a_server_inside_can_be_reached_inside() {
    each(&ONLY_A, |world| {
        let script = "use Socket; socket(S, AF_INET, SOCK_STREAM, 0); bind(S, sockaddr_in(0, INADDR_LOOPBACK)) or die; listen(S, 1); \
            my ($port) = sockaddr_in(getsockname(S)); \
            if (!fork) { socket(C, AF_INET, SOCK_STREAM, 0); connect(C, sockaddr_in($port, INADDR_LOOPBACK)) or die; syswrite C, qq(hello); exit } \
            accept(A, S); print <A>; wait";
        let output = world.command(&world.profile(), &["perl", "-e", script]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "hello", "{}{output:?}", world.name());
    });
}

/// How long a listener may take to come.
const PATIENCE: Duration = Duration::from_mins(1);

/// Starts a Perl script in a sandbox with a proxy, and receives its listener.
fn with_proxy(world: &World, profile: &Profile, script: &str) -> (Child, TcpListener) {
    let (mut command, receiver) = world.proxied_command(profile, &["perl", "-MSocket", "-e", script]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let listener = receiver.unwrap().expect_from(&child).unwrap().receive(PATIENCE);
    (child, listener.unwrap_or_else(|error| panic!("{}{error}", world.name())))
}

fn printed(world: &World, child: Child) -> String {
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}{output:?}", world.name());
    String::from_utf8(output.stdout).unwrap()
}

fn proxied(world: &World) -> Profile {
    Profile { network: NetworkAccess::Proxy, ..world.profile() }
}

#[test]
fn what_is_accepted_from_the_listener_comes_from_inside() {
    each(&ONLY_A, |world| {
        let script = r#"my ($port) = $ENV{http_proxy} =~ m{^http://127\.0\.0\.1:(\d+)$} or die; socket(S, AF_INET, SOCK_STREAM, 0);
            connect(S, sockaddr_in($port, INADDR_LOOPBACK)) or die "$!"; syswrite S, "in"; sysread S, $_, 9; print"#;
        let (child, listener) = with_proxy(world, &proxied(world), script);
        let (mut stream, _) = listener.accept().unwrap();
        let mut bytes = [0; 2];
        stream.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"in");
        stream.write_all(b"out").unwrap();
        assert_eq!(printed(world, child), "out");
    });
}

/// Names of both cases, and none of those that the caller has for the host.
#[test]
fn programs_inside_find_the_proxy_by_their_variables() {
    each(&ONLY_A, |world| {
        let script = r#"print join " ", map { "$_=$ENV{$_}" } grep /proxy/i, sort keys %ENV"#;
        let (child, listener) = with_proxy(world, &proxied(world), script);
        let port = listener.local_addr().unwrap().port();
        let http = format!("http://127.0.0.1:{port}");
        let none = "localhost,127.0.0.1,::1";
        let upper = format!("ALL_PROXY={http} HTTPS_PROXY={http} HTTP_PROXY={http} NO_PROXY={none}");
        let lower = format!("all_proxy={http} http_proxy={http} https_proxy={http} no_proxy={none}");
        assert_eq!(printed(world, child), format!("{upper} {lower}"));
    });
    each(&BOTH, |world| {
        let none = world.command(&proxied(world), &["sh", "-c", "env | grep -i proxy"]).output().unwrap();
        assert_eq!(none.stdout, b"", "{}", world.name());
    });
}

/// Beside the proxy there is nothing: not the host's loopback, no other network, no name server.
#[test]
fn escape_63_64_75_the_proxy_is_the_only_way_out() {
    each(&ONLY_A, |world| {
        let outside = TcpListener::bind("127.0.0.1:0").unwrap();
        outside.set_nonblocking(true).unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        udp.set_nonblocking(true).unwrap();
        let (tcp_port, udp_port) = (outside.local_addr().unwrap().port(), udp.local_addr().unwrap().port());
        let script = format!(
            r#"sub try {{ my ($kind, $port, $address) = @_; socket(S, AF_INET, $kind, 0) or die; $! = 0;
                connect(S, sockaddr_in($port, inet_aton($address))) and send(S, "x", 0); print $! + 0, " " }}
            try(SOCK_STREAM, {tcp_port}, "127.0.0.1"); try(SOCK_STREAM, 443, "192.0.2.1");
            try(SOCK_DGRAM, 53, "192.0.2.1"); try(SOCK_DGRAM, {udp_port}, "127.0.0.1"); $! = 0;
            print socket(S, AF_UNIX, SOCK_STREAM, 0) ? "made" : $! + 0"#
        );
        let (child, _listener) = with_proxy(world, &proxied(world), &script);
        let (refused, unreachable, denied) = (libc::ECONNREFUSED, libc::ENETUNREACH, libc::EPERM);
        // A datagram to a port of the own loopback is sent, and nobody has that port.
        assert_eq!(printed(world, child), format!("{refused} {unreachable} {unreachable} 0 {denied}"));
        assert!(outside.accept().is_err() && udp.recv(&mut [0; 8]).is_err(), "{}", world.name());
    });
}

/// The port is taken for as long as the caller listens, and nobody outside can connect to it.
#[test]
fn escape_63_nobody_takes_the_place_of_the_listener() {
    each(&ONLY_A, |world| {
        let script = r#"my ($port) = $ENV{ALL_PROXY} =~ /:(\d+)$/; for (0, 1) {
                socket(S, AF_INET, SOCK_STREAM, 0); setsockopt(S, SOL_SOCKET, SO_REUSEADDR, 1); setsockopt(S, SOL_SOCKET, SO_REUSEPORT, 1) if $_;
                $! = 0; bind(S, sockaddr_in($port, INADDR_LOOPBACK)) and listen(S, 1); print $! + 0, " "; }
            opendir(D, "/proc/self/fd"); print scalar(grep { (readlink("/proc/self/fd/$_") // "") =~ /^socket/ && $_ != fileno(S) } readdir D); <STDIN>"#;
        let profile = proxied(world);
        let (mut command, receiver) = world.proxied_command(&profile, &["perl", "-MSocket", "-e", script]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let listener = receiver.unwrap().expect_from(&child).unwrap().receive(PATIENCE).unwrap();
        let address = listener.local_addr().unwrap();
        assert_eq!(address.ip(), Ipv4Addr::LOCALHOST);
        listener.set_nonblocking(true).unwrap();
        // Another process of the host may have the number; then that one is connected to.
        let _ = TcpStream::connect(address);
        assert!(listener.accept().is_err(), "{}", world.name());
        drop(child.stdin.take());
        let taken = libc::EADDRINUSE;
        assert_eq!(printed(world, child), format!("{taken} {taken} 0"), "{}", world.name());
    });
}

/// Without a namespace nothing would keep the command from other hosts.
#[test]
fn escape_63_in_tier_b_a_proxy_is_no_network() {
    each(&[Tier::B], |world| {
        let profile = proxied(world);
        assert!(!profile.reaches_hosts());
        let (mut command, receiver) = world.proxied_command(
            &profile,
            &["perl", "-MSocket", "-e", "socket(S, AF_INET, SOCK_STREAM, 0) or print $! + 0"],
        );
        assert!(receiver.is_none());
        let output = command.output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), libc::EPERM.to_string());
        let network = ConfineReport::read(&profile.report).unwrap().layers.unwrap().network;
        assert!(matches!(&network, LayerState::Absent { reason } if reason.contains("by rule")), "{network:?}");
    });
}

/// A caller that is not there any more costs the command its network, never its sandbox.
#[test]
fn without_its_caller_the_command_runs_without_network() {
    each(&ONLY_A, |world| {
        let profile = proxied(world);
        let (mut command, receiver) =
            world.proxied_command(&profile, &["sh", "-c", "env | grep -c 127.0.0.1; cat /proc/net/dev | grep -c :"]);
        drop(receiver);
        let output = command.output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "0\n1\n", "{}{output:?}", world.name());
    });
}
