//! Deliveries of an answer to a channel.

use serde::{Deserialize, Serialize};

use super::payload;
use crate::ids::{EffectId, Epoch};

payload! {
    /// A reply goes out. Reserved for R46.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    DeliveryStarted {
        delivery: EffectId,
        /// The process that sends it.
        epoch: Epoch,
    }
    /// What became of it. Reserved for R46.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    DeliveryEnded {
        delivery: EffectId,
        /// Whether it is known to have arrived; none = unknown.
        arrived: Option<bool>,
    }
}
