//! The places for connections. When all are taken, the oldest client that has not shown the token makes way: whoever opens connections
//! and says nothing keeps nobody out.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

/// The connections that are open, by the order in which they came.
#[derive(Debug)]
pub(super) struct Places {
    /// How many there are.
    most: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    by_number: BTreeMap<u64, Arc<Standing>>,
    last: u64,
}

/// Whether a client has shown the token, and whether it has to make way.
#[derive(Debug, Default)]
struct Standing {
    is_trusted: AtomicBool,
    /// One task at a time serves a connection, and waits here too.
    makes_way: Notify,
}

/// A place, which is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    places: Arc<Places>,
    number: u64,
    standing: Arc<Standing>,
}

impl Places {
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, taken: Mutex::default() })
    }

    /// A place for a new connection; none if clients with the token have all of them.
    pub(super) fn take(self: &Arc<Self>) -> Option<Place> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.by_number.len() >= self.most {
            let is_unknown = |(_, of): &(&u64, &Arc<Standing>)| !of.is_trusted.load(Ordering::Relaxed);
            let oldest = taken.by_number.iter().find(is_unknown).map(|(number, _)| *number)?;
            taken.by_number.remove(&oldest).into_iter().for_each(|of| of.makes_way.notify_one());
        }
        taken.last += 1;
        let (number, standing) = (taken.last, Arc::<Standing>::default());
        taken.by_number.insert(number, Arc::clone(&standing));
        Some(Place { places: Arc::clone(self), number, standing })
    }
}

impl Place {
    /// Its client has shown the token.
    pub(super) fn trust(&self) {
        self.standing.is_trusted.store(true, Ordering::Relaxed);
    }

    /// It has shown one that opens nothing any more.
    pub(super) fn distrust(&self) {
        self.standing.is_trusted.store(false, Ordering::Relaxed);
    }

    /// Waits until it is needed for another client.
    pub(super) async fn is_needed(&self) {
        self.standing.makes_way.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.taken.lock().unwrap_or_else(PoisonError::into_inner).by_number.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    /// R60: silent clients make way, the oldest first; those with the token stay.
    #[test]
    fn r60_clients_without_the_token_make_way() {
        let places = Places::new(3);
        let mut open: Vec<Place> = (0..3).map(|_| places.take().unwrap()).collect();
        open[0].trust();
        let one_more = places.take().unwrap();
        let needed = |place: &Place| place.is_needed().now_or_never().is_some();
        assert_eq!(open.iter().map(needed).position(|is| is), Some(1));
        drop(open.remove(1));
        for place in &open {
            place.trust();
        }
        one_more.trust();
        assert!(places.take().is_none(), "all have the token");
        open.pop();
        assert!(places.take().is_some());
        drop((open, one_more));
        assert!(places.taken.lock().unwrap().by_number.is_empty());
    }
}
