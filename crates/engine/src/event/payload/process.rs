//! Commands in the background.

use serde::{Deserialize, Serialize};

use super::payload;
use crate::event::{CallOutcome, ProcessCause};
use crate::ids::{CallId, EffectId, Timestamp};

payload! {
    /// The session holds a command that its call has put into the background. The call is settled in the same batch.
    ProcessAdopted {
        /// The effect that started it; its name.
        process: EffectId,
        /// The call.
        call: CallId,
        /// When it is ended at the latest.
        until: Timestamp,
    }
    /// A process is to be ended.
    ProcessEnding {
        /// Which.
        process: EffectId,
        /// Why.
        why: ProcessCause,
    }
    /// A process has ended. It is still listed.
    ProcessEnded {
        /// Which.
        process: EffectId,
        /// How.
        outcome: CallOutcome,
        /// How, in words.
        how: String,
    }
    /// A process that has ended is not listed any more; its output is gone.
    ProcessForgotten {
        /// Which.
        process: EffectId,
    }
}
