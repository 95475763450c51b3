//! Pages of lists. A list is ordered by when its rows were created. The first page has the last rows, and the next page
//! the rows before them, so rows that are added meanwhile change no page that was already sent.

use std::str::FromStr;

use crate::error::Error;

/// The position from which a page continues.
pub(super) fn cursor<I: FromStr>(after: &str) -> Result<I, Error> {
    after.parse().map_err(|_| {
        let what = format!("`{after}` is not a cursor of this list");
        Error::invalid(what, "pass `next` of the previous page as it was received, or nothing for the first page")
    })
}

/// How many rows are read: one more than asked for shows that there is another page.
pub(super) fn wanted(limit: Option<usize>) -> usize {
    limit.map_or(usize::MAX, |limit| limit.saturating_add(1))
}

/// The page of these rows, and the parameter for the next page.
pub(super) fn page<T>(mut found: Vec<T>, limit: Option<usize>, id: impl Fn(&T) -> String) -> (Vec<T>, Option<String>) {
    let more = limit.map_or(0, |limit| found.len().saturating_sub(limit));
    let page = found.split_off(more);
    let next = page.first().filter(|_| more > 0).map(id);
    (page, next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r22_a_page_has_a_cursor_only_if_there_are_more_rows() {
        let of = |found: &[u8], limit| page(found.to_vec(), limit, u8::to_string);
        assert_eq!(of(&[1, 2, 3], Some(2)), (vec![2, 3], Some("2".to_owned())));
        assert_eq!(of(&[2, 3], Some(2)), (vec![2, 3], None));
        assert_eq!(of(&[1, 2, 3], None), (vec![1, 2, 3], None));
        assert_eq!(of(&[3], Some(0)), (vec![], None));
        assert_eq!((wanted(Some(2)), wanted(None)), (3, usize::MAX));
    }
}
