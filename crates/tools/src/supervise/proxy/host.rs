//! The host that a command names, in the one form in which rules are compared and names are resolved.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use crate::limits::{HOST_BYTES, HOST_LABEL_BYTES};

/// A host that rules and the resolver understand in the same way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Host {
    /// A name in lower case, without a dot at its end.
    Name(String),
    /// An address; never an IPv4 address inside an IPv6 address.
    Address(IpAddr),
}

impl Host {
    /// Reads a host as it stands in a URL or in a request of SOCKS. None for whatever two programs may read in two ways.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if let Some(inner) = text.strip_prefix('[') {
            return inner.strip_suffix(']')?.parse::<Ipv6Addr>().ok().map(|address| Self::of(address.into()));
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            return Some(Self::of(address));
        }
        let name = text.strip_suffix('.').unwrap_or(text);
        let is_whole = !name.is_empty() && name.len() <= HOST_BYTES && name.split('.').all(is_label);
        (is_whole && !is_numeric(name)).then(|| Self::Name(name.to_ascii_lowercase()))
    }

    pub(crate) fn of(address: IpAddr) -> Self {
        Self::Address(address.to_canonical())
    }
}

/// The form for rules: an IPv6 address has no brackets.
impl fmt::Display for Host {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => formatter.write_str(name),
            Self::Address(address) => address.fmt(formatter),
        }
    }
}

fn is_label(label: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    !label.is_empty() && label.len() <= HOST_LABEL_BYTES && label.bytes().all(is_plain)
}

/// Whether a resolver could read it as an address: `127.1`, `0x7f.1`, `2130706433`, `127.0.0.1.`.
fn is_numeric(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    let is_digits = last.bytes().all(|byte| byte.is_ascii_digit());
    is_digits || last.as_bytes().get(..2).is_some_and(|start| start.eq_ignore_ascii_case(b"0x"))
}

/// The ports of a host that is named without one.
pub(crate) const WEB: [u16; 2] = [80, 443];

/// A host and a port as rules name them: one of the ports of the web is left out.
pub(crate) fn named(host: &Host, port: u16) -> String {
    if WEB.contains(&port) { host.to_string() } else { authority(&host.to_string(), port) }
}

/// A host and a port, as a URL has them.
pub(crate) fn authority(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Splits `HOST:PORT`. The port is the default one if there is none.
pub(crate) fn split(authority: &str, default: Option<u16>) -> Option<(&str, u16)> {
    let end = authority.rfind(']').map_or(0, |at| at + 1);
    let Some(colon) = authority[end..].rfind(':').map(|at| end + at) else {
        return default.map(|port| (authority, port));
    };
    let digits = &authority[colon + 1..];
    let is_port = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let port = digits.parse().ok().filter(|port| is_port && *port != 0)?;
    Some((&authority[..colon], port))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R69: one host has one form.
    #[test]
    fn r69_hosts_are_read_in_one_way_or_not_at_all() {
        for (text, expected) in [
            ("Example.ORG", Some("example.org")),
            ("example.org.", Some("example.org")),
            ("a_b.example.org", Some("a_b.example.org")),
            ("xn--bcher-kva.example", Some("xn--bcher-kva.example")),
            ("localhost", Some("localhost")),
            ("192.0.2.1", Some("192.0.2.1")),
            ("[2001:DB8::1]", Some("2001:db8::1")),
            ("2001:db8::1", Some("2001:db8::1")),
            ("[::ffff:127.0.0.1]", Some("127.0.0.1")),
            ("", None),
            (".", None),
            ("example.org..", None),
            (".example.org", None),
            ("a..b", None),
            ("exämple.org", None),
            ("a b", None),
            ("a\0b", None),
            ("a\r\nb", None),
            ("a%2eb", None),
            ("user@example.org", None),
            ("example.org/x", None),
            ("example.org\\x", None),
            ("example.org#x", None),
            ("[fe80::1%eth0]", None),
            ("[::1", None),
            ("[192.0.2.1]", None),
            ("*.example.org", None),
        ] {
            assert_eq!(Host::parse(text).map(|host| host.to_string()).as_deref(), expected, "{text:?}");
        }
        assert_eq!(Host::parse(&"a".repeat(64)), None);
        assert_eq!(Host::parse(&["a"; 127].join(".")).map(|host| host.to_string().len()), Some(253));
        assert_eq!(Host::parse(&["a"; 128].join(".")), None);
    }

    /// Escape 70: the resolver reads these as addresses, and rules would see a name.
    #[test]
    fn escape_70_old_notations_of_addresses_are_no_hosts() {
        for text in [
            "127.1",
            "127.0.1",
            "2130706433",
            "0x7f.1",
            "0x7f000001",
            "0X7F.0.0.0x1",
            "0177.0.0.1",
            "127.0.0.01",
            "017700000001",
            "127.0.0.1.",
            "1.2.3.4.5",
            "256.0.0.1",
            "example.1",
            "example.0xg",
        ] {
            assert_eq!(Host::parse(text), None, "{text}");
        }
    }

    #[test]
    fn authorities_are_split() {
        for (text, default, expected) in [
            ("a:80", None, Some(("a", 80))),
            ("a", Some(80), Some(("a", 80))),
            ("a", None, None),
            ("[::1]:443", None, Some(("[::1]", 443))),
            ("[::1]", Some(80), Some(("[::1]", 80))),
            ("a:", Some(80), None),
            ("a:0", None, None),
            ("a:+1", None, None),
            ("a:65536", None, None),
            ("a:1:2", None, Some(("a:1", 2))),
        ] {
            assert_eq!(split(text, default), expected, "{text}");
        }
    }
}
