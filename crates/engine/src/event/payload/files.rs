//! What calls changed in files, and taking that back.

use serde::{Deserialize, Serialize};

use super::{is_default, payload};
use crate::body::Body;
use crate::event::{Attribution, FileContent, LeftFile, LineDiff, Modes, NotKept};
use crate::ids::{CallId, EffectId, RunId};
use crate::sandbox::CopyAct;

payload! {
    /// A call changed a file, a link or a folder. It is recorded with the result of the call, or with the
    /// end of the command that the call left in the background, one entry for each path.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    FilesChanged {
        call: CallId,
        /// Relative to the workspace of the run if it is inside, else absolute.
        path: String,
        /// What was there before the call; none = nothing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before: Option<FileContent>,
        /// What was there after it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<FileContent>,
        /// The permission bits before and after.
        #[serde(default, skip_serializing_if = "is_default")]
        mode: Modes,
        /// Why it cannot be taken back; none = it can. If it is said of the whole workspace, the path is `.`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        not_kept: Option<NotKept>,
        /// Who made it, if that is not certain.
        #[serde(default, skip_serializing_if = "is_default")]
        attribution: Attribution,
        /// What changed in its lines, for a person; none if that is not known, as after a command.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        diff: Option<LineDiff>,
        /// Another path of the workspace that was a name of the same file before (a hard link).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        linked: Option<String>,
    }
    /// The changes of a run are taken back, or made once more.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    UndoStarted {
        /// The effect that does it.
        undo: EffectId,
        run: RunId,
        /// Whether changes that were taken back are made once more.
        #[serde(default, skip_serializing_if = "is_default")]
        redo: bool,
        /// What becomes of the copy in which the run worked, if it is about that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        copy: Option<CopyAct>,
        /// Every file with what is there and what is to be there, as JSON.
        plan: Body,
    }
    /// That is done.
    UndoEnded {
        /// The effect that did it.
        undo: EffectId,
        /// The files that stayed as they were.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        left: Vec<LeftFile>,
    }
}
