//! What becomes of a message: decided by lifecycle and queue alone.

use super::lifecycle::LifecycleKind;
use LifecycleKind::{Active, Error, Idle, Initializing, Ready, Recovering, Suspended, Terminated};

/// What is done with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// It starts a run as soon as the lane is free.
    Start,
    /// It waits behind what is there.
    Queue,
    /// It waits until the session has settled, then is routed.
    Hold,
    /// It is not taken; the text says why and the way out.
    Refuse(&'static str),
}

/// The table. Every queue mode is a followup so far.
pub const ROUTES: &[(LifecycleKind, Route)] = &[
    (Initializing, Route::Hold),
    (Ready, Route::Start),
    (Active, Route::Queue),
    (Idle, Route::Start),
    (Suspended, Route::Queue),
    (Error, Route::Refuse("it needs a human; `limulus resume KEY --force` takes it up again")),
    (Recovering, Route::Hold),
    (Terminated, Route::Refuse("it was ended for good; use another session key")),
];

/// What is done with a message in a session of this lifecycle.
pub fn route(lifecycle: LifecycleKind) -> Route {
    ROUTES[lifecycle as usize].1
}
