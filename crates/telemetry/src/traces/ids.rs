//! Ids that a later owner finds again: the trace of a run is the run's own id, and a span's follows from what it is of.

use engine::RunId;

/// The trace of a run.
pub(super) fn trace(run: RunId) -> [u8; 16] {
    run.0.into_bytes()
}

/// The span of the run itself.
pub(super) fn root(run: RunId) -> [u8; 8] {
    span(run, "run")
}

/// The span of something in a run.
pub(super) fn span(run: RunId, of: &str) -> [u8; 8] {
    let hash = blake3::Hasher::new().update(run.0.as_bytes()).update(of.as_bytes()).finalize();
    let mut id = [0; 8];
    id.copy_from_slice(&hash.as_bytes()[..8]);
    // Zeros are no id. The chance is one in 2^64.
    id[7] |= u8::from(id == [0; 8]);
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r68_the_trace_of_a_run_is_its_id() {
        let run: RunId = "01890a5d-ac96-774b-bcce-b302099a8057".parse().unwrap();
        assert_eq!(u128::from_be_bytes(trace(run)), 0x0189_0a5d_ac96_774b_bcce_b302_099a_8057);
        assert_eq!(root(run), span(run, "run"));
        assert_ne!(span(run, "request:1"), span(run, "request:2"));
        assert_ne!(root(run), [0; 8]);
    }
}
