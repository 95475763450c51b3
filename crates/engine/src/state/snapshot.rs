//! A session's state as bytes, from which a fold may start, and the rule for when a snapshot pays off.

use serde::{Deserialize, Serialize};

use super::run::{Phase, Run};
use super::session::Session;

/// The version of the state's form. A snapshot of another version counts as absent, and the fold begins further back. It
/// changes with every field of it, except one that is left out at its default: older snapshots hold that default, and a
/// branch whose beginning was removed has nothing else to start from.
pub const STATE_VERSION: u32 = 13;

/// The version before it, in which the fields of both halves stood side by side.
const FLAT_VERSION: u32 = 12;

/// Entries between two snapshots at least. Fewer are folded faster than a state is read back.
const ENTRIES: u64 = 256;

/// Bytes of the last snapshot that one entry more has to outweigh, so that in the long run snapshots are no larger than
/// the entries that they stand for (about 500 bytes each).
const BYTES_PER_ENTRY: u64 = 256;

/// A snapshot of this version that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("it is not the state of a session ({error})")]
pub struct InvalidSnapshot {
    /// What the JSON reader said.
    pub error: String,
}

#[derive(Deserialize)]
struct Version {
    version: u32,
}

#[derive(Serialize)]
struct Write<'a> {
    version: u32,
    session: &'a Session,
}

#[derive(Deserialize)]
struct Read<T> {
    session: T,
}

impl Session {
    /// The state as JSON. It stands for the entries up to `head` only while [`Session::has_open_output`] is false.
    pub fn to_snapshot(&self) -> Vec<u8> {
        let kept = Write { version: STATE_VERSION, session: self };
        serde_json::to_vec(&kept).expect("the state is plain data, its keys are texts")
    }

    /// The state that [`Session::to_snapshot`] wrote; none for another version.
    pub fn from_snapshot(bytes: &[u8]) -> Result<Option<Self>, InvalidSnapshot> {
        let invalid = |error: serde_json::Error| InvalidSnapshot { error: error.to_string() };
        let Version { version } = serde_json::from_slice(bytes).map_err(invalid)?;
        let session = match version {
            STATE_VERSION => serde_json::from_slice::<Read<Self>>(bytes).map_err(invalid)?.session,
            FLAT_VERSION => Self::from_flat(bytes).map_err(invalid)?,
            _ => return Ok(None),
        };
        Ok(Some(session))
    }

    /// Each half takes its own fields out of the same object.
    fn from_flat(bytes: &[u8]) -> serde_json::Result<Self> {
        let Read { session: account } = serde_json::from_slice(bytes)?;
        let Read { session: conversation } = serde_json::from_slice(bytes)?;
        Ok(Self { account, conversation })
    }

    /// Whether the state holds progress that no entry has sealed, which the entries alone would not give back.
    pub fn has_open_output(&self) -> bool {
        let calls = |run: &Run| run.step.calls.iter().any(|call| !call.is_settled() && call.output_bytes > 0);
        let streams = |run: &Run| matches!(&run.phase, Phase::Streaming(stream) if stream.bytes > 0);
        self.run().is_some_and(|run| calls(run) || streams(run))
    }

    /// Whether to save a snapshot now: `entries` were folded since the last one, which had `bytes`. An idle session
    /// saves sooner, because it may stay idle.
    pub fn snapshot_due(&self, entries: u64, bytes: u64) -> bool {
        let least = ENTRIES.max(bytes / BYTES_PER_ENTRY);
        let least = if self.run().is_some() { least } else { least / 4 };
        entries >= least && !self.has_open_output()
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::event::Created;
    use crate::ids::{BranchId, SessionId, Timestamp};

    fn session() -> Session {
        let id = Uuid::from_u128(7);
        let created = Created {
            session: SessionId(id),
            key: "agent:main:main".into(),
            agent: "main".into(),
            branch: BranchId(id),
        };
        Session::created(&created, Timestamp(1))
    }

    /// This test fails for any change of the state's form, which then needs a new version.
    #[test]
    fn r17_the_form_of_the_state_has_this_version() {
        let id = "00000000-0000-0000-0000-000000000007";
        let form = format!(
            r#"{{"version":13,"session":{{"account":{{"id":"{id}","key":"agent:main:main","agent":"main","branch":"{id}","head":1,"created_at":1,"last_activity":1,"messages":{{}},"keys":{{}},"owed":[],"processes":[],"model":null,"thinking":null,"verbose":null,"queue_mode":null,"spent":{{}},"allowance":{{}},"epoch":0,"closed":true}},"conversation":{{"lifecycle":"initializing","held":null,"queue":[],"dropped":[],"transcript":{{"items":[],"seqs":[],"tokens":0,"sent":0,"sent_tokens":0,"counted":null,"resets":0,"flush":"not"}}}}}}}}"#
        );
        assert_eq!(String::from_utf8(session().to_snapshot()).unwrap(), form);
        assert_eq!(Session::from_snapshot(form.as_bytes()), Ok(Some(session())));
    }

    /// A branch whose beginning was removed has nothing else to start from.
    #[test]
    fn r17_a_state_of_the_version_before_the_two_halves_is_read() {
        let id = "00000000-0000-0000-0000-000000000007";
        let flat = format!(
            r#"{{"version":12,"session":{{"id":"{id}","key":"agent:main:main","agent":"main","branch":"{id}","head":1,"created_at":1,"last_activity":1,"lifecycle":"initializing","held":null,"queue":[],"messages":{{}},"keys":{{}},"dropped":[],"transcript":{{"items":[],"seqs":[],"tokens":0,"sent":0,"sent_tokens":0,"counted":null,"resets":0,"flush":"not"}},"owed":[],"processes":[],"model":null,"thinking":null,"verbose":null,"queue_mode":null,"spent":{{}},"allowance":{{}},"epoch":0,"closed":true}}}}"#
        );
        assert_eq!(Session::from_snapshot(flat.as_bytes()), Ok(Some(session())));
    }

    #[test]
    fn r11_a_state_of_another_version_counts_as_absent_and_what_is_none_is_an_error() {
        let newer = br#"{"version":14,"session":{"unheard":"of"}}"#;
        assert_eq!(Session::from_snapshot(newer), Ok(None));
        for bytes in [&b"{}"[..], b"", b"{\"version\":13}", b"{\"version\":12,\"session\":{\"id\":7}}"] {
            assert!(Session::from_snapshot(bytes).is_err(), "{}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn a_snapshot_is_due_when_the_entries_outweigh_the_last_one() {
        let session = session();
        let due = |entries, bytes| session.snapshot_due(entries, bytes);
        assert!(!due(63, 0) && due(64, 0), "at rest");
        assert!(!due(999, 1_024_000) && due(1_000, 1_024_000));
    }
}
