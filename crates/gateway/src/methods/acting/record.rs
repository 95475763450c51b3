//! `runs.record`: records what background commands have changed that ended while nobody owned the home. The session of such a
//! command is opened, and its actor observes the end as it would have at the time.

use std::time::Duration;

use engine::SessionRow;
use engine::tables::lifecycle::LifecycleKind;
use journal::Journal;
use protocol::method::Recorded;
use tokio::time::timeout;
use views::{fold_branch, unrecorded};

use super::end::reading;
use crate::error::Error;
use crate::service::Service;

/// How long is waited at most for all of them: they are recorded at the same time, and a look at a workspace ends after 30 s.
const RECORDING: Duration = Duration::from_secs(40);

/// Waits until the ends of all such commands are recorded, or could not be in time.
pub(in crate::methods) async fn record(service: &Service) -> Result<Recorded, Error> {
    let home = service.home().clone();
    let found = reading(service, move |journal| Ok(unrecorded(&home, journal)?)).await?;
    let ended = found.into_iter().filter(|session| !session.ended.is_empty());
    // One that needs a human records nothing before it is repaired.
    let ended: Vec<_> = ended.filter(|session| session.row.lifecycle != LifecycleKind::Error).collect();
    for session in &ended {
        service.runtime.open(&session.row.key, &session.row.agent, vec![]).await?;
    }
    let mut session_keys = vec![];
    let recording = async {
        for session in ended {
            until_recorded(service, &session).await?;
            session_keys.push(session.row.key);
        }
        Ok::<_, Error>(())
    };
    timeout(RECORDING, recording).await.unwrap_or(Ok(()))?;
    Ok(Recorded { session_keys })
}

/// Waits until the session knows of the end of these commands.
async fn until_recorded(service: &Service, session: &views::Unrecorded) -> Result<(), Error> {
    let (mut observed, mut broken, mut leaving) = (service.hub.observed(), service.runtime.broken(), service.leaving());
    loop {
        // An end that is recorded after this read is notified.
        let (row, ended): (SessionRow, _) = (session.row.clone(), session.ended.clone());
        let look = move |journal: &dyn Journal| {
            let session = fold_branch(journal, &row)?;
            Ok(ended.iter().all(|process| session.process(*process).is_none_or(engine::Process::is_ended)))
        };
        if reading(service, look).await? {
            return Ok(());
        }
        tokio::select! {
            Ok(()) = observed.changed() => {}
            Ok(error) = broken.wait_for(Option::is_some) => return Err(error.clone().expect("waited for").into()),
            Ok(_) = leaving.wait_for(|leaving| *leaving) => return Err(runtime::Error::Leaving.into()),
        }
    }
}
