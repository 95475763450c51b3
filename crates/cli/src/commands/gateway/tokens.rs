//! `limulus gateway token`: the token of the user, and tokens for programs, which may do less.

use std::path::Path;

use clap::Subcommand;
use gateway::http::{Access, NewToken, Token, TokenEntry, TokenError};
use protocol::Scope;

use super::{must_be_outside, names, refused_access, scope};
use crate::error::{CliError, Exit};
use crate::language::word;
use crate::show::human::{Zone, columns, heading, now, printable_line};
use crate::show::{json, print, worded};

const DAY_MS: i64 = 24 * 3_600 * 1_000;

#[derive(Debug, Clone, Default, Subcommand)]
pub(super) enum TokenCommand {
    /// Print your token; the first time it is made
    #[default]
    Show,
    /// Make your token anew: the old one opens nothing any more
    Rotate,
    /// Make a token for a program and print it, this once
    Create {
        /// The name by which you revoke it, such as that of the program
        #[arg(value_name = "NAME")]
        name: String,
        /// What it may do: read, write, approve, admin; several are separated by commas
        #[arg(long, value_name = "SCOPES", value_delimiter = ',', required = true, value_parser = scope)]
        scope: Vec<Scope>,
        /// After how many days it opens nothing any more [default: never]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
        days: Option<u32>,
    },
    /// List the tokens of programs
    List,
    /// Revoke the token of a program: what it has opened is closed
    Revoke {
        /// Its name
        #[arg(value_name = "NAME")]
        name: String,
    },
}

pub(super) fn run(command: TokenCommand, as_json: bool, home: &Path) -> Result<(), CliError> {
    match command {
        TokenCommand::Show => say(Token::open(home).map_err(|error| refused(&error))?.expose(), as_json),
        TokenCommand::Rotate => {
            must_be_outside(home)?;
            say(Token::rotate(home).map_err(|error| refused(&error))?.expose(), as_json)
        }
        TokenCommand::Create { name, scope, days } => {
            must_be_outside(home)?;
            // A service has one of its user, and so has every home with which a client is to connect.
            Token::open(home).map_err(|error| refused(&error))?;
            let now = now().0;
            let expires_at = days.map(|days| now + i64::from(days) * DAY_MS);
            let new = NewToken { name, scopes: scope, now, expires_at };
            let made = Access::change(home, |access| access.create_token(new));
            say(&made.map_err(|error| refused_access(&error))?, as_json)
        }
        TokenCommand::List => list(&Access::read(home).map_err(|error| refused_access(&error))?.tokens, as_json),
        TokenCommand::Revoke { name } => {
            must_be_outside(home)?;
            let revoked = Access::change(home, |access| access.revoke_token(&name));
            revoked.map_err(|error| refused_access(&error))?;
            if as_json {
                return print(&json(&serde_json::json!({ "revoked": name })));
            }
            print(&worded(format!("token {name} opens nothing any more\n")))
        }
    }
}

/// Prints a token alone, so that a script can take it.
fn say(token: &str, as_json: bool) -> Result<(), CliError> {
    print(&if as_json { json(&serde_json::json!({ "token": token })) } else { format!("{token}\n") })
}

fn list(tokens: &[TokenEntry], as_json: bool) -> Result<(), CliError> {
    let now = now();
    if as_json {
        let shown = |token: &'_ TokenEntry| {
            serde_json::json!({
                "name": token.name,
                "scopes": token.scopes,
                "created_at": token.created_at,
                "expires_at": token.expires_at,
                "expired": token.has_expired(now.0),
            })
        };
        return print(&json(&tokens.iter().map(shown).collect::<Vec<_>>()));
    }
    if tokens.is_empty() {
        return print(&worded("there are no tokens but yours; `limulus gateway token create` makes one\n"));
    }
    let zone = Zone::local();
    let time = |at: i64| zone.short(engine::Timestamp(at), now);
    let rows = tokens.iter().map(|token| {
        let expires = match token.expires_at {
            Some(_) if token.has_expired(now.0) => word("has expired"),
            Some(at) => time(at),
            None => word("never"),
        };
        [printable_line(&token.name).into_owned(), names(&token.scopes), time(token.created_at), expires]
    });
    let rows: Vec<_> = std::iter::once(heading(["name", "may", "created", "expires"])).chain(rows).collect();
    print(&worded(columns(&rows)))
}

fn refused(error: &TokenError) -> CliError {
    CliError::Refused { exit: Exit::Store, what: error.to_string(), hint: error.hint().to_owned() }
}
