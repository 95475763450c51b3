//! The names of runs: a client of OpenClaw knows a run by the idempotency key of the message that began it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use engine::RunId;
use protocol::Client;
use protocol::method::{ReceiptParams, ReceiptsGet};

use super::trouble::Trouble;

/// Runs whose names are remembered for a client.
const RUNS: usize = 1_024;

/// The names of the last runs of which a client was shown something.
#[derive(Debug, Default)]
pub(super) struct RunNames(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    names: HashMap<RunId, String>,
    order: VecDeque<RunId>,
}

impl RunNames {
    /// Remembers the key of a message, by which the run that it begins is known.
    pub(super) fn learn(&self, run: RunId, name: &str) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.names.insert(run, name.to_owned()).is_none() {
            known.order.push_back(run);
        }
        if known.order.len() > RUNS
            && let Some(oldest) = known.order.pop_front()
        {
            known.names.remove(&oldest);
        }
    }

    /// The name of a run: the key of its message, or its own id if that is not known any more.
    pub(super) async fn of(&self, client: &Client, run: RunId) -> String {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).names.get(&run).cloned();
        if let Some(name) = known {
            return name;
        }
        let params = ReceiptParams { id: Some(run.to_string()), ..ReceiptParams::default() };
        let receipt = client.call::<ReceiptsGet>(params).await.ok();
        let name = receipt.and_then(|receipt| receipt.key).unwrap_or_else(|| run.to_string());
        self.learn(run, &name);
        name
    }
}

/// The run with this name, or with this id.
pub(super) async fn find(client: &Client, name: &str, session: Option<&str>) -> Result<Option<RunId>, Trouble> {
    let of_key = ReceiptParams { key: Some(name.to_owned()), session: session.map(str::to_owned), id: None };
    let of_id = ReceiptParams { id: Some(name.to_owned()), ..ReceiptParams::default() };
    for params in [of_key, of_id] {
        match client.call::<ReceiptsGet>(params).await {
            Ok(receipt) => return Ok(Some(receipt.run)),
            Err(protocol::ClientError::Answered(error)) if error.code != protocol::ErrorCode::Unavailable => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
}
