//! Profiles that are logged in (OAuth 2): access tokens are got with a refresh token, one refresh at a time. The tokens
//! live here and in the refresh token's file; they are in no record.

mod grant;
mod logins;
#[cfg(test)]
mod tests;
mod token_file;

use std::path::PathBuf;
use std::time::Duration;

use reqwest::Url;

pub use logins::Logins;

/// What an access token of a profile is got with. The refresh token itself is read when it is needed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Login {
    /// The provider's name in the configuration.
    pub provider: String,
    /// The profile's name.
    pub profile: String,
    /// Where tokens are asked for.
    pub token_url: String,
    /// Who asks, as the token server knows this program.
    pub client_id: String,
    /// The file that holds the refresh token, and nothing else; a new one is put into its place.
    pub place: PathBuf,
    /// The address of an HTTP proxy; none = as the environment says.
    pub proxy: Option<String>,
    /// How long a refresh may take.
    pub limit: Duration,
}

impl Login {
    /// The profile in words: where it stands in the configuration.
    fn shown(&self) -> String {
        format!("profile `{}` in [[providers.{}.profiles]]", self.profile, self.provider)
    }

    /// What a person does when the login does not hold any more.
    pub(crate) fn remedy(&self) -> String {
        format!("Log in again and put the new refresh token into {} ({}).", self.place.display(), self.shown())
    }

    /// The same where it may be over with the next access token.
    pub(crate) fn remedy_of_token(&self) -> String {
        format!("A new access token is asked for; if that does not help: {}", self.remedy())
    }

    /// What a person does when the token server refuses, and not for the token.
    pub(crate) fn remedy_of_server(&self) -> String {
        format!("Check `token_url` and `client_id` of {}.", self.shown())
    }

    /// The same where the token was sent before, and what came of that was not kept.
    fn remedy_of_loss(&self) -> String {
        format!(
            "It was sent before, and what that brought was not kept, as limulus was killed or the answer was lost on its way: a token that may be used once is used up by that. {}",
            self.remedy()
        )
    }
}

/// An operation of a refresh is done. In this module's tests the process may end here.
fn step() {
    #[cfg(test)]
    tests::deaths::step();
}

/// Whether tokens may be sent to this address: over TLS, or not out of this machine.
pub fn may_hold_tokens(address: &str) -> bool {
    let Ok(url) = Url::parse(address.trim()) else { return false };
    let host = url.host_str().unwrap_or_default();
    let ip = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    let is_here = host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback());
    url.scheme() == "https" || url.scheme() == "http" && is_here
}
