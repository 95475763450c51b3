//! Commands in the background.

use serde::{Deserialize, Serialize};

use super::payload;
use crate::event::{CallOutcome, ProcessCause};
use crate::ids::{CallId, EffectId, Timestamp};

payload! {
    /// The session holds a command that its call has put into the background. The call is settled in the same batch.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    ProcessAdopted {
        /// The effect that started it; its name.
        process: EffectId,
        call: CallId,
        /// When it is ended at the latest.
        until: Timestamp,
    }
    /// A process is to be ended.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    ProcessEnding {
        process: EffectId,
        why: ProcessCause,
    }
    /// A process has ended. It is still listed.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    ProcessEnded {
        process: EffectId,
        outcome: CallOutcome,
        /// How, as a sentence.
        how: String,
    }
    /// A process that has ended is not listed any more; its output is gone.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    ProcessForgotten {
        process: EffectId,
    }
}
