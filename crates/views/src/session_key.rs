//! Session keys: `agent:AGENT:NAME`, where a bare NAME stands for `agent:main:NAME`.

use std::fmt;

use crate::error::Error;
use crate::is_unsafe;

/// The key of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionKey {
    /// The agent of the session.
    pub agent: String,
    name: String,
}

impl SessionKey {
    /// Parses a key that a person wrote; an absent key is `agent:main:main`.
    pub fn parse(text: Option<&str>) -> Result<Self, Error> {
        let text = text.unwrap_or("main");
        let (agent, name) = match text.split_once(':') {
            None => ("main", text),
            Some(("agent", rest)) => rest.split_once(':').unwrap_or(("", "")),
            Some(_) => ("", ""),
        };
        let shows = |part: &str| !part.is_empty() && !part.contains(|c: char| c.is_whitespace() || is_unsafe(c));
        if !shows(agent) || !shows(name) {
            return Err(Error::SessionKey { key: text.to_owned() });
        }
        Ok(Self { agent: agent.to_owned(), name: name.to_owned() })
    }
}

impl fmt::Display for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "agent:{}:{}", self.agent, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_name_is_a_session_of_main() {
        let check = |text: Option<&str>, key: &str| {
            assert_eq!(SessionKey::parse(text).expect("a key").to_string(), key);
        };
        check(None, "agent:main:main");
        check(Some("work"), "agent:main:work");
        check(Some("agent:helper:work"), "agent:helper:work");
        check(Some("agent:main:chat:42"), "agent:main:chat:42");
        for wrong in ["", "a b", "agent:", "agent:x", "agent::x", "agent:x:", "chat:42", "a\nb"] {
            refused(wrong);
        }
    }

    #[test]
    fn r21_a_key_that_reads_as_another_is_refused() {
        for wrong in
            ["\u{202e}niam", "ma\u{200b}in", "\u{feff}main", "main\u{7f}", "a\u{9b}b", "a\u{61c}", "a\u{e0041}"]
        {
            refused(wrong);
            refused(&format!("agent:{wrong}:x"));
        }
    }

    fn refused(wrong: &str) {
        let refused = SessionKey::parse(Some(wrong));
        assert!(matches!(&refused, Err(Error::SessionKey { key }) if key == wrong), "{wrong}: {refused:?}");
    }
}
