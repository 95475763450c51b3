//! `deliveries.list`: what goes out of sessions and has not arrived.

use engine::SessionRow;
use protocol::method::{DeliveriesList, DeliveriesListParams, DeliveriesListed};
use views::{Source, deliveries, lookup};

use super::Reads;
use crate::error::Error;

impl Reads for DeliveriesList {
    fn read(source: &Source<'_>, params: DeliveriesListParams) -> Result<DeliveriesListed, Error> {
        let rows = match params.session.as_deref() {
            Some(key) => vec![lookup::session(source.read, Some(key))?],
            // One that has something to deliver is unfinished, one whose deliveries did not arrive says so.
            None => source.read.sessions()?.into_iter().filter(|row| row.unfinished || row.trouble.is_some()).collect(),
        };
        let of = |row: &SessionRow| deliveries::of_session(source.read, row);
        let mut deliveries = rows.iter().map(of).collect::<Result<Vec<_>, _>>()?.concat();
        deliveries.sort_by_key(|delivery| delivery.wanted_at);
        Ok(DeliveriesListed { deliveries })
    }
}
