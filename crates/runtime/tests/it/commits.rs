//! How many commits a run takes: what comes at once is recorded at once.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use engine::Event;
use journal::Memory;
use runtime::{Options, Runtime};
use testkit::{OfflineResolver, message};

/// The kinds of the entries of each commit of a run with one call that reads.
async fn commits(home: &Path, workspace: &Path) -> Vec<Vec<&'static str>> {
    let resolver = OfflineResolver::in_workspace(workspace.display().to_string());
    let (options, mut events) = testkit::options(resolver, Duration::ZERO);
    let journal = Memory::new();
    journal.open();
    let runtime = Runtime::new(Arc::new(journal), Options { home: home.to_owned(), ..options });
    runtime.open("agent:main:main", "main", vec![message("list this folder")]).await.expect("a new session");
    let mut commits = vec![];
    loop {
        let published = events.recv().await.expect("a runtime that goes on");
        let entries = published.batch.records.iter().filter(|record| record.seq.is_some());
        commits.push(entries.map(|record| record.event.kind()).collect());
        if published.batch.records.iter().any(|record| matches!(record.event, Event::RunEnded(_))) {
            runtime.shutdown().await.expect("a store in order");
            return commits;
        }
    }
}

fn is_together(commits: &[Vec<&str>], first: &str, last: &str) -> bool {
    commits.iter().any(|kinds| {
        let at = |kind: &str| kinds.iter().position(|of| *of == kind);
        at(first).zip(at(last)).is_some_and(|(first, last)| first < last)
    })
}

/// R10: a busy machine may take too long for a commit to wait, but not always.
#[tokio::test]
async fn r10_a_message_and_its_request_are_one_commit_and_so_is_a_round_of_read_only_calls() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (mut turn, mut round) = (false, false);
    for _ in 0..50 {
        let commits = commits(&folder.path().join("home"), folder.path()).await;
        turn |= is_together(&commits, "message_accepted", "request_sent");
        round |= is_together(&commits, "request_opened", "call_started")
            && is_together(&commits, "message_sealed", "request_sent");
        if turn && round {
            return;
        }
    }
    panic!("a turn was one commit: {turn}, a round: {round}");
}
