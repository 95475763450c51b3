//! The provider faults in the cases of the shipped build: one list, in the rows of docs/internals/provider-faults.md.
//! Data.

use engine::FailureClass::{
    self, Auth, AuthPermanent, Billing, ContextOverflow, InvalidRequest, Malformed, ModelNotFound, Network, Overloaded,
    RateLimit, Server, Stalled, Timeout,
};

use super::plan::Work;

/// Milliseconds from a request to the first byte of its fault: a kill can also come before that.
pub(super) const FAULT_MS: u64 = 15;

/// How long the reaction to most faults takes, milliseconds: the run continues at once.
const SOON_MS: u64 = 45;
/// The same if the answer comes at once and is accepted.
const AT_ONCE_MS: u64 = 20;
/// The same if the answer has calls that end soon.
const CALLS_MS: u64 = 35;
/// The same if the run waits first, a random part of a second or a little more.
const WAITS_MS: u64 = 300;
/// The same if an idle timeout has to pass.
const SILENT_MS: u64 = 1_400;

/// Where the first model of the chain is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Address {
    /// At the model server, like all others.
    Server,
    /// At a host name that does not exist.
    NoName,
    /// At a server that accepts connections and sends nothing, with TLS.
    MuteTls,
}

/// The required end of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ends {
    /// With the whole answer.
    Completed,
    /// With a failure that says this.
    Failed(&'static str),
}

/// A kind of provider fault.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ProviderFault {
    /// Its row in the catalogue; empty for no fault.
    pub(super) number: &'static str,
    /// Its name here and on the page: mostly its script.
    pub(super) name: &'static str,
    /// The script for the model server.
    pub(super) script: &'static str,
    pub(super) address: Address,
    pub(super) work: Work,
    pub(super) ends: Ends,
    /// The class of every failure of the run; `None`: nothing fails.
    pub(super) class: Option<FailureClass>,
    /// How long it is mostly in progress, milliseconds.
    pub(super) lasts_ms: u64,
}

impl ProviderFault {
    /// Whether the run has to wait until a timeout of its requests. All others must not have a short one: where the
    /// machine stands still for a second, a request without a fault would fail too.
    pub(super) fn is_silence(&self) -> bool {
        matches!(self.class, Some(Stalled)) || (self.class == Some(Timeout) && self.lasts_ms == SILENT_MS)
    }
}

/// The run continues: it retries, with the other key, or with the other model.
const fn fault(number: &'static str, script: &'static str, class: FailureClass, lasts_ms: u64) -> ProviderFault {
    ProviderFault { class: Some(class), ..harmless(number, script, lasts_ms) }
}

/// The answer is accepted, or its calls get results that say what is wrong.
const fn harmless(number: &'static str, script: &'static str, lasts_ms: u64) -> ProviderFault {
    let (address, work, ends) = (Address::Server, Work::Rounds, Ends::Completed);
    ProviderFault { number, name: script, script, address, work, ends, class: None, lasts_ms }
}

/// An overflow of a history that can be compacted.
const fn overflow(script: &'static str) -> ProviderFault {
    ProviderFault { work: Work::Reads, ..fault("P08", script, ContextOverflow, SOON_MS) }
}

/// The first model cannot be reached: the run uses the other one.
const fn unreachable(name: &'static str, address: Address, class: FailureClass, lasts_ms: u64) -> ProviderFault {
    ProviderFault { name, address, ..fault("P12", "", class, lasts_ms) }
}

/// A provider without a fault.
pub(super) static NONE: ProviderFault = harmless("", "", SOON_MS);

/// All faults, by row. P01 to P08 are the refusals in the order of their row: 429, 500, 503 and 529, 401, 402 and
/// equivalent texts, 403, 404, and the rest.
pub(super) static FAULTS: [ProviderFault; 63] = [
    fault("P01", "fail=429x1", RateLimit, WAITS_MS),
    fault("P01", "fail=429x1 retry_after=0", RateLimit, SOON_MS),
    fault("P01", "fail=429x1 retry_after=1", RateLimit, WAITS_MS),
    fault("P01", "fail=429x1 retry_after=date+1", RateLimit, SOON_MS),
    fault("P01", "fail=429x1 retry_after=date-60", RateLimit, SOON_MS),
    fault("P01", "fail=429x1 retry_after_ms=300", RateLimit, 300),
    fault("P01", "fail=429x1 retry_after=soon", RateLimit, WAITS_MS),
    fault("P01", "fail=429x1 retry_after=1000000000", RateLimit, SOON_MS),
    fault("P02", "fail=500x2 retry_after=0", Server, SOON_MS),
    fault("P03", "fail=503x1 retry_after=0", Overloaded, SOON_MS),
    fault("P03", "fail=529x1", Overloaded, WAITS_MS),
    fault("P04", "fail=401x1", Auth, SOON_MS),
    fault("P05", "fail=402x1", Billing, SOON_MS),
    fault("P05", "fail=429x1 wording=quota", Billing, SOON_MS),
    fault("P05", "fail=400x1 wording=hard_limit", Billing, SOON_MS),
    fault("P06", "fail=403x1", AuthPermanent, SOON_MS),
    fault("P07", "fail=404x1", ModelNotFound, SOON_MS),
    overflow("fail=400x1 after=3 wording=openai_overflow"),
    overflow("fail=400x1 after=3 wording=vllm_overflow"),
    overflow("fail=400x1 after=3 wording=llama_cpp_overflow"),
    overflow("fail=400x1 after=3 wording=dashscope_overflow"),
    overflow("fail=400x1 after=3 wording=lm_studio_overflow"),
    // For every request: a process that is killed before it reads the refusal sends the request again.
    ProviderFault {
        ends: Ends::Failed("refused as the script says"),
        ..fault("P08", "fail=400x9", InvalidRequest, AT_ONCE_MS)
    },
    fault("P08", "fail=408x1", Timeout, WAITS_MS),
    fault("P09", "cut=0x1", Network, WAITS_MS),
    fault("P09", "cut=3x1", Network, WAITS_MS),
    fault("P09", "odd=cut_framex1", Network, WAITS_MS),
    fault("P09", "odd=resetx1", Network, WAITS_MS),
    fault("P09", "odd=headersx1", Network, WAITS_MS),
    fault("P09", "odd=no_endx1", Network, WAITS_MS),
    harmless("P10", "odd=noisex1", AT_ONCE_MS),
    harmless("P10", "odd=cr_endsx1", AT_ONCE_MS),
    harmless("P10", "odd=split_utf8x1", AT_ONCE_MS),
    harmless("P10", "odd=no_blankx1", AT_ONCE_MS),
    fault("P10", "odd=giant_linex1", Malformed, WAITS_MS),
    fault("P10", "odd=error_eventx1", Server, WAITS_MS),
    fault("P10", "odd=broken_framex1", Malformed, WAITS_MS),
    fault("P10", "odd=bad_utf8x1", Malformed, WAITS_MS),
    fault("P10", "odd=gzip_cutx1", Malformed, WAITS_MS),
    harmless("P11", "odd=call_brokenx1", CALLS_MS),
    harmless("P11", "odd=call_no_objectx1", CALLS_MS),
    harmless("P11", "odd=call_schemax1", CALLS_MS),
    harmless("P11", "odd=call_unknownx1", CALLS_MS),
    harmless("P11", "odd=call_no_idx1", CALLS_MS),
    harmless("P11", "odd=call_same_idx1", CALLS_MS),
    harmless("P11", "odd=call_same_indexx1", CALLS_MS),
    harmless("P11", "odd=call_interleavedx1", CALLS_MS),
    fault("P11", "odd=call_namelessx1", Malformed, WAITS_MS),
    fault("P11", "odd=call_nonex1", Malformed, WAITS_MS),
    fault("P11", "odd=call_too_manyx1", Malformed, WAITS_MS),
    fault("P12", "hang=1", Timeout, SILENT_MS),
    fault("P12", "stall=3x1", Stalled, SILENT_MS),
    fault("P12", "odd=headx1", Timeout, SILENT_MS),
    fault("P12", "odd=pingsx1", Timeout, SILENT_MS),
    fault("P12", "odd=word_pingsx1", Stalled, SILENT_MS),
    fault("P12", "odd=tricklex1", Timeout, SILENT_MS),
    unreachable("no_name", Address::NoName, Network, AT_ONCE_MS),
    unreachable("mute_tls", Address::MuteTls, Timeout, SILENT_MS),
    fault("P13", "odd=htmlx1", Malformed, WAITS_MS),
    fault("P13", "odd=jsonx1", Malformed, WAITS_MS),
    fault("P13", "odd=redirectx1", Malformed, WAITS_MS),
    // In the second request: a client that takes the surplus for the answer to the third makes the same call twice.
    harmless("P13", "odd=twicex1 after=1", AT_ONCE_MS),
    fault("P13", "odd=latex1", Timeout, SILENT_MS),
];

#[cfg(test)]
mod tests {
    use super::*;
    use model_server::{Fault, Odd, Script};
    use std::collections::BTreeSet;

    /// The page that says what follows each fault.
    const PAGE: &str = include_str!("../../../../../docs/internals/provider-faults.md");

    #[test]
    fn r51_every_row_of_the_catalogue_is_there_and_every_name_once() {
        let rows: BTreeSet<String> = FAULTS.iter().map(|fault| fault.number.to_owned()).collect();
        assert_eq!(rows, (1..=13).map(|row| format!("P{row:02}")).collect());
        assert!(FAULTS.is_sorted_by_key(|fault| fault.number));
        let names: BTreeSet<&str> = FAULTS.iter().map(|fault| fault.name).collect();
        assert!(names.len() == FAULTS.len() && !names.contains(""));
    }

    #[test]
    fn r51_every_script_says_what_goes_wrong() {
        for fault in FAULTS.iter().filter(|fault| fault.address == Address::Server) {
            let script = Script::parse(fault.script).unwrap_or_else(|| panic!("{} is no script", fault.name));
            let times = script.fault.map(Fault::times);
            // A permanent failure must happen again after a kill; all other faults must end.
            assert_eq!(times > Some(2), fault.ends != Ends::Completed, "{}", fault.name);
        }
    }

    #[test]
    fn r24_every_odd_answer_is_in_the_list() {
        for (name, odd) in Odd::ALL {
            let has_script = |fault: &&ProviderFault| fault.script.split(' ').next() == Some(&format!("odd={name}x1"));
            let parsed = FAULTS.iter().find(has_script).and_then(|fault| Script::parse(fault.script)?.fault);
            assert_eq!(parsed, Some(Fault::Odd { odd, times: 1 }), "{name}");
        }
    }

    #[test]
    fn r51_every_kind_is_documented() {
        for fault in &FAULTS {
            let row = PAGE.lines().find(|line| line.contains(&format!("`{}`", fault.name)));
            let row = row.unwrap_or_else(|| panic!("{} is not on the page", fault.name));
            assert!(row.starts_with(&format!("| {} |", fault.number)), "{row}");
            let class =
                fault.class.map(|class| format!("`{}`", serde_json::to_value(class).unwrap().as_str().unwrap()));
            assert!(class.is_none_or(|class| row.contains(&class)), "{:?} is not in {row}", fault.class);
        }
    }
}
