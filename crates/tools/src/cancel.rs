//! Runs the tools that work inside this process on a thread of their own. Dropping the future that waits for one ends
//! it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::ToolError;

/// The flag that says whether the call is cancelled. A tool checks it between two pieces of work.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// A flag that is already set.
    #[cfg(test)]
    pub(crate) fn cancelled() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }

    /// Returns an error if the call is cancelled.
    pub(crate) fn check(&self) -> Result<(), ToolError> {
        if self.is_set() { Err(ToolError::Cancelled) } else { Ok(()) }
    }

    /// Returns whether the call is cancelled.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// Cancels the call when it is dropped.
#[derive(Debug)]
pub(crate) struct CancelOnDrop(pub(crate) Cancel);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::SeqCst);
    }
}

/// Runs `work` on a thread that may block. Dropping this future sets the flag that `work` receives.
pub(crate) async fn in_process<T: Send + 'static>(
    tool: &'static str,
    work: impl FnOnce(&Cancel) -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    let cancel = Cancel::default();
    let _guard = CancelOnDrop(cancel.clone());
    tokio::task::spawn_blocking(move || work(&cancel)).await.unwrap_or(Err(ToolError::Defect { tool }))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn r15_dropping_the_future_ends_the_work() {
        let (started, mut has_started) = tokio::sync::mpsc::channel(1);
        let (stopped, has_stopped) = tokio::sync::oneshot::channel();
        let working = in_process::<()>("read", move |cancel| {
            started.blocking_send(()).unwrap();
            while !cancel.is_set() {
                // waits: for the flag itself, which is all that work in a tool can look at
                std::thread::sleep(Duration::from_millis(1));
            }
            stopped.send(()).unwrap();
            Err(ToolError::Cancelled)
        });
        tokio::select! {
            _ = working => panic!("it works until it is cancelled"),
            _ = has_started.recv() => {}
        }
        // This never completes if the flag is not set.
        has_stopped.await.unwrap();
    }

    #[tokio::test]
    async fn a_defect_in_a_tool_is_an_error_of_its_call() {
        let panicked = in_process::<()>("read", |_| panic!("on purpose")).await;
        assert!(matches!(panicked, Err(ToolError::Defect { tool: "read" })));
    }
}
