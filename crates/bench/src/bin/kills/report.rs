//! The table of points and hits, and the summary.

use super::case::{Verdict, hits};
use super::faults::{FAULTS, ProviderFault};
use super::odd_calls::OddMet;
use super::plan::{Case, Point};

/// How often each point must be hit.
const HITS: usize = 5;

/// How often kills happened during a kind of provider fault.
#[derive(Debug, Default)]
struct Met {
    cases: usize,
    kills: usize,
    on_resume: usize,
    /// Kills while it was in progress.
    amid: usize,
    /// Cases whose journal has the failure, so that the kill came after it.
    recorded: usize,
}

/// The result of all cases.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) verdicts: Vec<(Case, Verdict)>,
    /// Violations outside of cases.
    pub(super) violations: Vec<String>,
}

impl Report {
    /// How many processes SIGKILL ended.
    pub(super) fn kills(&self) -> usize {
        self.count(|killed, _, _| killed)
    }

    /// How many of them were resuming after an earlier kill.
    pub(super) fn kills_on_resume(&self) -> usize {
        self.count(|killed, on_resume, _| killed && on_resume)
    }

    /// How many of them were of the shipped build, at random times.
    pub(super) fn random_kills(&self) -> usize {
        self.count(|killed, _, at_point| killed && !at_point)
    }

    fn count(&self, wanted: impl Fn(bool, bool, bool) -> bool) -> usize {
        let kills = self.verdicts.iter().flat_map(|(_, verdict)| &verdict.kills);
        kills.filter(|kill| wanted(kill.killed, kill.on_resume, kill.attack.point().is_some())).count()
    }

    /// Required numbers that were not reached.
    pub(super) fn shortfalls(&self, kills: usize, on_resume: usize, random: usize) -> Vec<String> {
        let mut short = vec![];
        for (point, name, _) in Point::ALL {
            let hit = self.hits(point);
            if hit < HITS {
                short.push(format!("point {name} was hit {hit} times, {HITS} are required"));
            }
        }
        let numbers = [
            ("kills", self.kills(), kills),
            ("kills during resume", self.kills_on_resume(), on_resume),
            ("random kills", self.random_kills(), random),
        ];
        let too_few = numbers.iter().filter(|(_, are, asked)| are < asked);
        short.extend(
            self.faults_not_met()
                .iter()
                .map(|fault| format!("no kill happened during `{}`, or no journal has it", fault.name)),
        );
        short.extend(too_few.map(|(what, are, asked)| format!("{are} {what}, {asked} are required")));
        short
    }

    /// Faults during which no kill happened, or whose failure no journal has.
    pub(super) fn faults_not_met(&self) -> Vec<&'static ProviderFault> {
        let is_met = |fault: &&ProviderFault| {
            let Met { amid, recorded, .. } = self.met(fault);
            amid > 0 && (recorded > 0 || fault.class.is_none())
        };
        FAULTS.iter().filter(|fault| !is_met(fault)).collect()
    }

    /// The counts of one kind of provider fault.
    fn met(&self, fault: &ProviderFault) -> Met {
        let mut met = Met::default();
        for (_, verdict) in self.verdicts.iter().filter(|(case, _)| case.setup.fault == fault) {
            let killed = || verdict.kills.iter().filter(|kill| kill.killed);
            met.cases += 1;
            met.recorded += usize::from(verdict.has_failed);
            met.kills += killed().count();
            met.on_resume += killed().filter(|kill| kill.on_resume).count();
            // If a kill came before the calls were recorded, the model then made valid calls.
            if verdict.odd_calls != OddMet::Missed {
                met.amid += killed().filter(|kill| kill.amid_fault).count();
            }
        }
        met
    }

    fn hits(&self, point: Point) -> usize {
        self.verdicts.iter().map(|(_, verdict)| hits(verdict, point).count()).sum()
    }

    fn hits_on_resume(&self, point: Point) -> usize {
        let kills = self.verdicts.iter().flat_map(|(_, verdict)| hits(verdict, point));
        kills.filter(|kill| kill.on_resume).count()
    }

    /// The whole report, as Markdown.
    pub(super) fn text(&self) -> String {
        let mut lines = vec!["| point | hits | of them during resume |".to_owned(), "|---|---:|---:|".to_owned()];
        for (point, name, meaning) in Point::ALL {
            lines.push(format!("| {meaning} (`{name}`) | {} | {} |", self.hits(point), self.hits_on_resume(point)));
        }
        lines.push(format!("| any time (shipped build) | {} | |", self.random_kills()));
        lines.push(String::new());
        let received: usize = self.verdicts.iter().map(|(_, verdict)| verdict.received_bytes).sum();
        let interrupted: usize = self.verdicts.iter().map(|(_, verdict)| verdict.interrupted).sum();
        lines.push(
            "| row | what the provider does wrong | cases | kills | of them during resume | while it was in progress | recorded |"
                .to_owned(),
        );
        lines.push("|---|---|---:|---:|---:|---:|---:|".to_owned());
        for fault in &FAULTS {
            let Met { cases, kills, on_resume, amid, recorded } = self.met(fault);
            lines.push(format!(
                "| {} | `{}` | {cases} | {kills} | {on_resume} | {amid} | {recorded} |",
                fault.number, fault.name
            ));
        }
        lines.push(String::new());
        let odd = self.verdicts.iter().map(|(_, verdict)| verdict.odd_calls);
        let [denied, done, again] = odd.fold([0; 3], |[denied, done, again], met| match met {
            OddMet::Denied(calls) => [denied + calls, done, again],
            OddMet::Done(calls) => [denied, done + calls, again],
            OddMet::AskedAgain => [denied, done, again + 1],
            OddMet::NotPlanned | OddMet::Missed => [denied, done, again],
        });
        lines.push(format!(
            "invalid calls: {denied} answered with an error, {done} distinguished and run, {again} answers requested again"
        ));
        lines.push(format!(
            "{} cases, {} kills ({} during resume, {} at random); {received} bytes of text were received and checked; {interrupted} calls ended as interrupted",
            self.verdicts.len(),
            self.kills(),
            self.kills_on_resume(),
            self.random_kills(),
        ));
        lines.join("\n")
    }

    /// Every violation, with its case.
    pub(super) fn all_violations(&self) -> Vec<String> {
        let of_case = |(case, verdict): &(Case, Verdict)| {
            let attacks: Vec<String> = case.attacks.iter().map(ToString::to_string).collect();
            let home = verdict.kept.as_ref().map(|kept| format!(" [{}]", kept.display())).unwrap_or_default();
            let fault = case.setup.fault.name;
            let head = format!("{} {fault} ({}){home}", case.name, attacks.join(", "));
            verdict.violations.iter().map(|violation| format!("{head}: {violation}")).collect::<Vec<_>>()
        };
        self.verdicts.iter().flat_map(of_case).chain(self.violations.iter().cloned()).collect()
    }
}
