//! The numbers of a candidate's sampling, as APIs take them.

/// Thousandths as a decimal number.
pub(crate) fn decimal(thousandths: Option<u32>) -> Option<f64> {
    thousandths.map(|thousandths| f64::from(thousandths) / 1_000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousandths_are_written_as_people_do() {
        for (thousandths, written) in [(0, "0.0"), (700, "0.7"), (333, "0.333"), (2_000, "2.0")] {
            assert_eq!(serde_json::to_string(&decimal(Some(thousandths))).unwrap(), written);
        }
        assert_eq!(decimal(None), None);
    }
}
