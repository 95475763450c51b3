//! Where the reading commands get their answers: from the owner of the home, over its socket, where there is one that
//! answers; else from the journal, which everybody may read. Both are the same methods, so the answers are the same. What
//! may not live here: what is asked, and how it is laid out.

use std::path::Path;
use std::time::Duration;

use gateway::methods::reading::Reads;
use gateway::show::Source;
use gateway::socket;
use protocol::method::Method;
use protocol::{ClientError, ErrorCode};
use tokio::time::timeout;

use crate::config::Globals;
use crate::error::CliError;
use crate::owner_client::look;
use crate::show::open;

/// How long an owner may take to answer before the journal is read here instead.
const ANSWER: Duration = Duration::from_secs(30);

/// What a reading method gives, of the owner or of the journal.
pub(crate) fn ask<M>(globals: &Globals, params: M::Params) -> Result<M::Result, CliError>
where
    M: Reads,
    M::Params: Clone,
{
    match of_owner::<M>(&globals.home, params.clone()) {
        Some(answer) => answer,
        None => of_journal::<M>(globals, params),
    }
}

/// What the journal says, whoever owns it.
fn of_journal<M: Reads>(globals: &Globals, params: M::Params) -> Result<M::Result, CliError> {
    let reader = open(globals)?;
    let (home, immutable) = (globals.home.as_path(), reader.is_immutable());
    Ok(M::read(&Source { home, read: &reader, immutable, most_bytes: u64::MAX, waits: &[] }, params)?)
}

/// What the owner says; nothing where there is none that can.
fn of_owner<M: Method>(home: &Path, params: M::Params) -> Option<Result<M::Result, CliError>> {
    if !home.join(socket::NAME).exists() {
        return None;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    let answer = runtime.block_on(async {
        // One of another version may not know the method.
        let owner_client = look(home, false).await?.ok().filter(|owner_client| owner_client.can(M::NAME))?;
        timeout(ANSWER, owner_client.client.call::<M>(params)).await.ok()
    })?;
    runtime.shutdown_background();
    match answer {
        Ok(result) => Some(Ok(result)),
        Err(ClientError::Answered(shape)) => {
            // What it cannot answer, the journal can: it leaves, it cannot read, the answer is too long for a frame.
            let is_final =
                !matches!(shape.code, ErrorCode::TooLarge | ErrorCode::Unavailable | ErrorCode::Store | ErrorCode::Bug);
            is_final.then(|| Err(shape.into()))
        }
        Err(ClientError::Gone | ClientError::Frame(_) | ClientError::Unreadable { .. }) => None,
    }
}
