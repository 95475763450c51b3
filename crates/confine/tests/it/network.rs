//! Escapes by sockets.

use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};

use confine::{NetworkAccess, Profile, Tier};

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
