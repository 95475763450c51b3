//! A command that changes one thing: it sends one request to the owner, or becomes the owner if there is none.

use std::sync::Arc;

use client::is_gone;
use config::Globals;
use protocol::{Client, ClientError};

use super::follower::{End, Follower};
use crate::args::WriterArgs;
use crate::deprecation;
use crate::error::{CliError, failed};

/// The response to a change, which may have opened a session.
pub(crate) trait Changed {
    /// The key of that session.
    fn session_key(&self) -> Option<&str>;
}

macro_rules! changed {
    ($($of_session:ident),+; $($of_home:ident),+) => {
        $(impl Changed for protocol::method::$of_session {
            fn session_key(&self) -> Option<&str> {
                Some(&self.session_key)
            }
        })+
        $(impl Changed for protocol::method::$of_home {
            fn session_key(&self) -> Option<&str> {
                None
            }
        })+
    };
}

changed!(BudgetStory, Cancelled, DeliveryChanged, FilesUndone, QueueModeSet, RunAsked, Uncompacted; CleanedUp, GrantShown, NoResult, ProfileUsed, ProfilesCleared, Recorded);

/// Sends one request to the owner, or becomes the owner if there is none, and returns the response.
pub(crate) async fn change<T: Changed>(
    globals: &Globals,
    writer: &WriterArgs,
    call: impl AsyncFn(&Client) -> Result<T, ClientError>,
) -> Result<T, CliError> {
    Ok(change_and_owner(globals, writer, call).await?.0)
}

/// The same, with whether this process was the owner, which leaves now.
pub(crate) async fn change_and_owner<T: Changed>(
    globals: &Globals,
    writer: &WriterArgs,
    call: impl AsyncFn(&Client) -> Result<T, ClientError>,
) -> Result<(T, bool), CliError> {
    let config = Arc::new(deprecation::load(globals, writer.flags())?);
    let mut follower = Follower::open_to_change(globals, config, writer).await?;
    let answer = loop {
        match call(follower.client()).await {
            Ok(answer) => break Ok(answer),
            Err(error) if is_gone(&error) => follower.reopen().await?,
            Err(error) => break Err(failed(error)),
        }
    };
    let answer = match answer {
        Ok(answer) => {
            let key = answer.session_key();
            let finished = follower.finish(key).await;
            finished.map(|()| answer)
        }
        error => error,
    };
    let is_owner = follower.is_owner();
    let closed = follower.close(End::of(&answer)).await;
    answer.and_then(|answer| closed.map(|()| (answer, is_owner)))
}
