//! The printed table: targets, measurements, and whether the targets are met.

/// A figure with its target.
#[derive(Debug)]
pub(super) struct Row {
    /// The work that was measured.
    pub(super) what: &'static str,
    pub(super) target: Target,
    pub(super) measured: Samples,
}

/// A line of the table.
#[derive(Debug)]
pub(super) enum Line {
    /// A figure in numbers.
    Figure(Row),
    /// A result in words.
    Words {
        what: &'static str,
        /// The requirement; empty if there is none.
        asked: &'static str,
        found: String,
        /// Whether the result meets the requirement.
        is_met: bool,
    },
}

/// The required value, in the row's unit.
#[derive(Debug, Clone, Copy)]
pub(super) enum Target {
    /// This much or less.
    AtMost(f64),
    /// This much or more.
    AtLeast(f64),
    /// No requirement: it is printed for comparison.
    None,
}

/// Measurements of one thing in one unit.
#[derive(Debug)]
pub(super) struct Samples {
    unit: &'static str,
    values: Vec<f64>,
    /// The quantile that counts, as a share of the values.
    share: f64,
}

impl Samples {
    /// Takes values in this unit; at least one.
    pub(super) fn new(unit: &'static str, mut values: Vec<f64>) -> Self {
        assert!(!values.is_empty(), "a figure needs a measurement");
        values.sort_by(f64::total_cmp);
        Self { unit, values, share: 0.5 }
    }

    /// The same, judged by the 99th percentile.
    pub(super) fn p99(self) -> Self {
        Self { share: 0.99, ..self }
    }

    /// The value that counts: the median, or the chosen quantile.
    fn value(&self) -> f64 {
        let at = (self.values.len() as f64 * self.share) as usize;
        self.values[at.min(self.values.len() - 1)]
    }
}

impl Row {
    fn is_met(&self) -> bool {
        match self.target {
            Target::AtMost(most) => self.measured.value() <= most,
            Target::AtLeast(least) => self.measured.value() >= least,
            Target::None => true,
        }
    }

    fn line(&self) -> String {
        let unit = self.measured.unit;
        let target = match self.target {
            Target::AtMost(most) => format!("≤ {} {unit}", figure(most)),
            Target::AtLeast(least) => format!("≥ {} {unit}", figure(least)),
            Target::None => String::new(),
        };
        let values = &self.measured.values;
        let (low, high) = (values[0], values[values.len() - 1]);
        format!(
            "| {} | {target} | **{} {unit}** | {} – {} ({}) | {} |",
            self.what,
            figure(self.measured.value()),
            figure(low),
            figure(high),
            values.len(),
            if matches!(self.target, Target::None) { "" } else { verdict(self.is_met()) },
        )
    }
}

fn verdict(is_met: bool) -> &'static str {
    if is_met { "met" } else { "missed" }
}

impl From<Row> for Line {
    fn from(row: Row) -> Self {
        Self::Figure(row)
    }
}

impl Line {
    fn text(&self) -> String {
        match self {
            Self::Figure(row) => row.line(),
            Self::Words { what, asked, found, is_met } => {
                let verdict = if asked.is_empty() { "" } else { verdict(*is_met) };
                format!("| {what} | {asked} | **{found}** | | {verdict} |")
            }
        }
    }
}

/// The lines as a Markdown table.
pub(super) fn markdown(lines: &[Line]) -> String {
    let head =
        ["| work | target | measured (median, or p99 where it says so) | range (runs) | |", "|---|---|---|---|---|"];
    head.into_iter().map(str::to_owned).chain(lines.iter().map(Line::text)).collect::<Vec<_>>().join("\n")
}

/// Three significant digits, with thousands separators.
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
    fn at_p99_one_of_a_hundred_may_be_higher() {
        let mut values = vec![1.0; 200];
        values[0] = 9.0;
        let row = |values: &[f64]| Row {
            what: "w",
            target: Target::AtMost(2.0),
            measured: Samples::new("ms", values.to_vec()).p99(),
        };
        assert!(row(&values).is_met());
        values[1..3].fill(9.0);
        assert!(!row(&values).is_met());
    }

    #[test]
    fn figures_are_readable() {
        for (value, expected) in [(0.05, "0.05"), (12.3456, "12.346"), (999.6, "1,000"), (1_234_567.0, "1,234,567")] {
            assert_eq!(figure(value), expected);
        }
    }
}
