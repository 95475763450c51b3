//! Profiles with a login (OAuth 2): a refresh token obtains access tokens, one refresh at a time. The tokens are only
//! in memory and in the refresh token's file, never in the journal.

mod grant;
mod logins;
#[cfg(test)]
mod tests;
mod token_file;

use std::path::PathBuf;
use std::time::Duration;

use reqwest::Url;

pub use logins::Logins;

/// The data to obtain access tokens for a profile. The refresh token itself is read when it is needed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Login {
    /// The provider's name in the configuration.
    pub provider: String,
    /// The profile's name in the configuration.
    pub profile: String,
    /// The URL of the token server.
    pub token_url: String,
    /// The client id of this program at the token server.
    pub client_id: String,
    /// The file that contains only the refresh token; a new token replaces it.
    pub place: PathBuf,
    /// The address of an HTTP proxy; none means that the environment decides.
    pub proxy: Option<String>,
    /// The timeout of a refresh.
    pub limit: Duration,
}

impl Login {
    /// The profile by its key in the configuration.
    fn shown(&self) -> String {
        format!("profile `{}` in [[providers.{}.profiles]]", self.profile, self.provider)
    }

    /// The hint if the login is no longer valid.
    pub(crate) fn remedy(&self) -> String {
        format!("Log in again and put the new refresh token into {} ({}).", self.place.display(), self.shown())
    }

    /// The hint if the next access token may solve it.
    pub(crate) fn remedy_of_token(&self) -> String {
        format!("The next request gets a new access token. If that does not help: {}", self.remedy())
    }

    /// The hint if the token server refuses for another reason than the token.
    pub(crate) fn remedy_of_server(&self) -> String {
        format!("Check `token_url` and `client_id` of {}.", self.shown())
    }

    /// The hint if the token was sent before and the result was lost.
    fn remedy_of_loss(&self) -> String {
        format!(
            "The token was sent before and the answer was lost, because limulus was killed or the connection broke; a single-use token is then used up. {}",
            self.remedy()
        )
    }
}

/// Marks a completed operation of a refresh. In the tests of this module the process may end here.
fn step() {
    #[cfg(test)]
    tests::deaths::step();
}

/// Whether tokens may be sent to this address: over TLS, or within this machine.
pub fn may_hold_tokens(address: &str) -> bool {
    let Ok(url) = Url::parse(address.trim()) else { return false };
    let host = url.host_str().unwrap_or_default();
    let ip = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    let is_here = host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback());
    url.scheme() == "https" || url.scheme() == "http" && is_here
}
