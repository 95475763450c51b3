//! The printed table: what is asked for, what was measured, whether it is met.

/// One figure.
#[derive(Debug)]
pub(super) struct Row {
    /// What was done.
    pub(super) what: &'static str,
    /// What is asked for.
    pub(super) target: Target,
    /// What was measured.
    pub(super) measured: Samples,
}

/// What is asked for, in the row's unit.
#[derive(Debug, Clone, Copy)]
pub(super) enum Target {
    /// So much or less.
    AtMost(f64),
    /// So much or more.
    AtLeast(f64),
}

/// Measurements of one thing in one unit.
#[derive(Debug)]
pub(super) struct Samples {
    unit: &'static str,
    values: Vec<f64>,
}

impl Samples {
    /// Takes the values in this unit; there must be one.
    pub(super) fn new(unit: &'static str, mut values: Vec<f64>) -> Self {
        assert!(!values.is_empty(), "a figure needs a measurement");
        values.sort_by(f64::total_cmp);
        Self { unit, values }
    }

    fn median(&self) -> f64 {
        self.values[self.values.len() / 2]
    }
}

impl Row {
    fn is_met(&self) -> bool {
        match self.target {
            Target::AtMost(most) => self.measured.median() <= most,
            Target::AtLeast(least) => self.measured.median() >= least,
        }
    }

    fn line(&self) -> String {
        let unit = self.measured.unit;
        let target = match self.target {
            Target::AtMost(most) => format!("≤ {} {unit}", figure(most)),
            Target::AtLeast(least) => format!("≥ {} {unit}", figure(least)),
        };
        let values = &self.measured.values;
        let (low, high) = (values[0], values[values.len() - 1]);
        format!(
            "| {} | {target} | **{} {unit}** | {} – {} ({}) | {} |",
            self.what,
            figure(self.measured.median()),
            figure(low),
            figure(high),
            values.len(),
            if self.is_met() { "met" } else { "missed" },
        )
    }
}

/// The rows as a Markdown table.
pub(super) fn markdown(rows: &[Row]) -> String {
    let head = ["| work | target | measured (median) | range (runs) | |", "|---|---|---|---|---|"];
    head.into_iter().map(str::to_owned).chain(rows.iter().map(Row::line)).collect::<Vec<_>>().join("\n")
}

/// Three significant digits, thousands apart.
fn figure(value: f64) -> String {
    if value < 100.0 {
        return format!("{value:.3}").trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    let whole = format!("{value:.0}");
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_decides_whether_a_target_is_met() {
        let row = |target, values: &[f64]| Row { what: "w", target, measured: Samples::new("ms", values.to_vec()) };
        assert!(row(Target::AtMost(2.0), &[9.0, 2.0, 1.0]).is_met());
        assert!(!row(Target::AtMost(1.9), &[9.0, 2.0, 1.0]).is_met());
        assert!(row(Target::AtLeast(2.0), &[9.0, 2.0, 1.0]).is_met());
        assert!(!row(Target::AtLeast(2.1), &[9.0, 2.0, 1.0]).is_met());
    }

    #[test]
    fn figures_are_readable() {
        for (value, expected) in [(0.05, "0.05"), (12.3456, "12.346"), (999.6, "1,000"), (1_234_567.0, "1,234,567")] {
            assert_eq!(figure(value), expected);
        }
    }
}
