//! What a client may do. The service decides it for each request.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a method needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// To see what there is.
    Read,
    /// To send messages, and to direct runs and sessions.
    Write,
    /// To answer approval requests.
    Approve,
    /// To delete, to spend more, and to leave out the sandbox.
    Admin,
}

impl Scope {
    /// All scopes.
    pub const ALL: [Self; 4] = [Self::Read, Self::Write, Self::Approve, Self::Admin];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Approve => "approve",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The scopes of a client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Scopes(u8);

impl Scopes {
    /// Those of the user of the home.
    pub const ALL: Self = Self(0b1111);

    /// Whether a client with these may do what needs that: `admin` may do everything, and who may write may read.
    pub fn allow(self, scope: Scope) -> bool {
        let has = |scope: Scope| self.0 & bit(scope) != 0;
        has(scope) || has(Scope::Admin) || scope == Scope::Read && has(Scope::Write)
    }

    /// Those that it was given by name.
    pub fn iter(self) -> impl Iterator<Item = Scope> {
        Scope::ALL.into_iter().filter(move |scope| self.0 & bit(*scope) != 0)
    }
}

fn bit(scope: Scope) -> u8 {
    1 << scope as u8
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        Self(scopes.into_iter().fold(0, |all, scope| all | bit(scope)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R60: who may write may read, and `admin` may do everything; nothing else follows from anything.
    #[test]
    fn r60_what_follows_from_a_scope() {
        use Scope::{Admin, Approve, Read, Write};
        let allowed = |scopes: &[Scope]| {
            let scopes: Scopes = scopes.iter().copied().collect();
            Scope::ALL.into_iter().filter(|scope| scopes.allow(*scope)).collect::<Vec<_>>()
        };
        assert_eq!(allowed(&[]), []);
        assert_eq!(allowed(&[Read]), [Read]);
        assert_eq!(allowed(&[Write]), [Read, Write]);
        assert_eq!(allowed(&[Approve]), [Approve]);
        assert_eq!(allowed(&[Admin]), Scope::ALL);
        assert_eq!(Scope::ALL.into_iter().collect::<Scopes>(), Scopes::ALL);
        assert_eq!([Approve, Read].into_iter().collect::<Scopes>().iter().collect::<Vec<_>>(), [Read, Approve]);
    }
}
