//! A session whose conversation was evicted while it was idle continues from the journal as if it had been cached.

use std::sync::Arc;
use std::time::Duration;

use engine::{Event, Usage};
use journal::Sqlite;
use runtime::{Options, Published, Runtime};
use testkit::{OfflineResolver, message};
use tokio::sync::mpsc::UnboundedReceiver;

/// Runs a message to its end; returns the tokens that the model counted in its input.
async fn ask(runtime: &mut Runtime, events: &mut UnboundedReceiver<Published>, key: &str, text: &str) -> Usage {
    runtime.open(key, "main", vec![message(text)]).await.expect("a session that reads");
    loop {
        let published = events.recv().await.expect("a runtime that goes on");
        for record in &published.batch.records {
            if let Event::RunEnded(ended) = &record.event {
                return ended.usage;
            }
        }
    }
}

/// The input of the third run of a session, with this many runs of other sessions before it.
async fn third(others: usize) -> Usage {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::create_dir(folder.path().join("work")).expect("a workspace");
    let workspace = folder.path().join("work").display().to_string();
    let (options, mut events) = testkit::options(OfflineResolver::in_workspace(workspace), Duration::ZERO);
    let options = Options { home: folder.path().join("home"), ..options };
    let journal = Arc::new(Sqlite::own(&options.home).expect("a fresh home"));
    let mut runtime = Runtime::new(journal, options);
    for text in ["list this folder", "who are you?"] {
        ask(&mut runtime, &mut events, "agent:main:main", text).await;
    }
    for other in 0..others {
        ask(&mut runtime, &mut events, &format!("agent:main:{other}"), "who are you?").await;
    }
    let usage = ask(&mut runtime, &mut events, "agent:main:main", "list this folder").await;
    runtime.shutdown().await.expect("a store in order");
    usage
}

#[tokio::test]
async fn r20_a_session_that_others_pushed_out_of_memory_sends_its_whole_history() {
    let (kept, let_go) = (third(0).await, third(20).await);
    assert!(kept.input > 400, "two requests with the history of two runs: {kept:?}");
    assert_eq!(kept, let_go);
}
