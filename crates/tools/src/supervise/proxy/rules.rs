//! Which hosts a command may reach.

use std::net::IpAddr;

use engine::policy::matches_host;
use serde::{Deserialize, Serialize};

use super::host::{self, Host, WEB};

/// Which hosts a command may reach. A pattern is that of a rule (`example.org`, `*.example.org`, `*`), with a port behind it
/// (`example.org:22`) or without one. No pattern that allows, no host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HostRules {
    /// Hosts that it may reach, at ports 80 and 443 unless a pattern names another one.
    #[serde(default)]
    pub(crate) allow: Vec<String>,
    /// Hosts that are asked about, whatever allows them, at any port unless a pattern names one.
    #[serde(default)]
    pub(crate) ask: Vec<String>,
    /// Hosts that somebody has approved: they need no other rule.
    #[serde(default)]
    pub(crate) approved: Vec<String>,
    /// Hosts that it may not reach, at any port unless a pattern names one. They win.
    #[serde(default)]
    pub(crate) deny: Vec<String>,
    /// Whether they may have addresses that are not on the public internet.
    #[serde(default)]
    pub(crate) private: bool,
}

impl HostRules {
    /// Whether a rule denies it, whatever allows it.
    pub(crate) fn denies(&self, host: &Host, port: u16) -> bool {
        let host = host.to_string();
        self.deny.iter().any(|pattern| HostPattern::parse(pattern).denies(&host, port))
    }

    pub(crate) fn allows(&self, host: &Host, port: u16) -> bool {
        if self.denies(host, port) {
            return false;
        }
        let host = host.to_string();
        let covers =
            |patterns: &[String]| patterns.iter().any(|pattern| HostPattern::parse(pattern).denies(&host, port));
        let allows =
            |patterns: &[String]| patterns.iter().any(|pattern| HostPattern::parse(pattern).allows(&host, port));
        allows(&self.approved) || allows(&self.allow) && !covers(&self.ask)
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
        let rules = HostRules { allow: owned(allow), deny: owned(deny), ..HostRules::default() };
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

    /// R69: what is asked about needs an approval, and what is denied has none.
    #[test]
    fn r69_an_approval_beats_what_is_asked_and_not_what_is_denied() {
        let one = |text: &str| vec![text.to_owned()];
        let rules = HostRules {
            allow: one("*.example.org"),
            ask: one("a.example.org"),
            approved: vec!["a.example.org:22".to_owned(), "b.example.org".to_owned(), "c.example.com".to_owned()],
            deny: one("b.example.org"),
            private: false,
        };
        for (asked, expected) in [
            ("a.example.org:443", false),
            ("a.example.org:22", true),
            ("b.example.org:443", false),
            ("c.example.com:443", true),
            ("d.example.org:443", true),
        ] {
            let (host, port) = host::split(asked, None).unwrap();
            assert_eq!(rules.allows(&Host::parse(host).unwrap(), port), expected, "{asked}");
        }
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
