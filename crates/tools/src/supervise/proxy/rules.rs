//! Which hosts a command may reach.

use std::net::IpAddr;

use engine::policy::matches_host;
use serde::{Deserialize, Serialize};

use super::host::{self, Host};

/// The ports of a rule that names none.
const WEB: [u16; 2] = [80, 443];

/// Which hosts a command may reach. A pattern is that of a rule (`example.org`, `*.example.org`, `*`), with a port behind it
/// (`example.org:22`) or without one. No pattern that allows, no host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HostRules {
    /// Hosts that it may reach, at ports 80 and 443 unless a pattern names another one.
    #[serde(default)]
    pub(crate) allow: Vec<String>,
    /// Hosts that it may not reach, at any port unless a pattern names one. They win.
    #[serde(default)]
    pub(crate) deny: Vec<String>,
    /// Whether they may have addresses that are not on the public internet.
    #[serde(default)]
    pub(crate) private: bool,
}

impl HostRules {
    pub(super) fn allows(&self, host: &Host, port: u16) -> bool {
        let host = host.to_string();
        let denies = |pattern: &String| HostPattern::parse(pattern).denies(&host, port);
        let allows = |pattern: &String| HostPattern::parse(pattern).allows(&host, port);
        !self.deny.iter().any(denies) && self.allow.iter().any(allows)
    }
}

/// A pattern of a rule.
struct HostPattern {
    /// As the engine compares it.
    host: String,
    port: PatternPort,
}

#[derive(Clone, Copy)]
enum PatternPort {
    None,
    One(u16),
    /// What stands there is no port.
    Invalid,
}

impl HostPattern {
    fn parse(pattern: &str) -> Self {
        // An IPv6 address without brackets has colons of its own.
        let is_bare = |text: &str| text.parse::<IpAddr>().is_ok() || !text.contains(':') || text.ends_with(']');
        let (host, port) = if is_bare(pattern) {
            (pattern, PatternPort::None)
        } else if let Some((host, port)) = host::split(pattern, None) {
            (host, PatternPort::One(port))
        } else {
            (pattern.split(':').next().unwrap_or_default(), PatternPort::Invalid)
        };
        let unbracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let address = unbracketed.parse::<IpAddr>().ok().map(|address| address.to_canonical().to_string());
        Self { host: address.unwrap_or_else(|| host.strip_suffix('.').unwrap_or(host).to_owned()), port }
    }

    fn allows(&self, host: &str, port: u16) -> bool {
        let fits = match self.port {
            PatternPort::None => WEB.contains(&port),
            PatternPort::One(own) => own == port,
            PatternPort::Invalid => false,
        };
        fits && matches_host(&self.host, host)
    }

    /// In doubt it denies more.
    fn denies(&self, host: &str, port: u16) -> bool {
        let fits = match self.port {
            PatternPort::None | PatternPort::Invalid => true,
            PatternPort::One(own) => own == port,
        };
        fits && matches_host(&self.host, host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(allow: &[&str], deny: &[&str], asked: &str, expected: bool) {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let rules = HostRules { allow: owned(allow), deny: owned(deny), private: false };
        let (host, port) = host::split(asked, None).unwrap();
        assert_eq!(rules.allows(&Host::parse(host).unwrap(), port), expected, "{allow:?} {deny:?} {asked}");
    }

    /// R69: a rule names a host, all below one, or any; its port is the web's unless it names another.
    #[test]
    fn r69_rules_name_hosts_and_ports() {
        check(&[], &[], "example.org:443", false);
        check(&["example.org"], &[], "example.org:443", true);
        check(&["example.org"], &[], "EXAMPLE.org.:80", true);
        check(&["Example.ORG."], &[], "example.org:80", true);
        check(&["example.org"], &[], "example.org:22", false);
        check(&["example.org:22"], &[], "example.org:22", true);
        check(&["example.org:22"], &[], "example.org:443", false);
        check(&["*"], &[], "any.example:443", true);
        check(&["*"], &[], "any.example:22", false);
        check(&["*:22"], &[], "any.example:22", true);
        check(&["192.0.2.1:8080"], &[], "192.0.2.1:8080", true);
        check(&["192.0.2.1"], &[], "[::ffff:192.0.2.1]:80", true);
        check(&["[2001:db8::1]:8080"], &[], "[2001:DB8:0::1]:8080", true);
        check(&["2001:db8::1"], &[], "[2001:db8::1]:443", true);
        check(&["[2001:db8::1]"], &[], "[2001:db8::1]:443", true);
        check(&["example.org:http"], &[], "example.org:80", false);
    }

    #[test]
    fn escape_71_a_name_that_ends_alike_is_another_host() {
        for asked in
            ["evilallowed.org:443", "allowed.org.evil.example:443", "allowed.org:443", "allowed.org-x.example:80"]
        {
            check(&["*.allowed.org"], &[], asked, false);
        }
        check(&["*.allowed.org"], &[], "docs.allowed.org:443", true);
        check(&["allowed.org"], &[], "docs.allowed.org:443", false);
        check(&["allowed.org"], &[], "evilallowed.org:443", false);
    }

    #[test]
    fn r69_deny_beats_allow() {
        check(&["*"], &["example.org"], "example.org:443", false);
        check(&["example.org:22"], &["example.org"], "example.org:22", false);
        check(&["*"], &["example.org:443"], "example.org:80", true);
        check(&["*"], &["example.org:x"], "example.org:80", false);
        check(&["docs.example.org"], &["*.example.org"], "docs.example.org:443", false);
        check(&["*"], &["192.0.2.1"], "[::ffff:192.0.2.1]:443", false);
    }
}
