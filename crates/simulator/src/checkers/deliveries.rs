//! What went out to the route for replies: nothing twice, nothing out of order, nothing lost without a word.

use std::collections::{BTreeMap, BTreeSet};

use engine::{Body, DeliveryKind, EffectId, Event, RunId};

use super::Evidence;
use crate::invariant::{Invariant, Violation};

/// The delivery that this is a try of.
fn named(effect: EffectId) -> EffectId {
    EffectId { try_no: 1, ..effect }
}

/// Whatever arrived was recorded as started before, in the order in which it was wanted, and twice only where keys count.
pub(super) fn arrive_once_and_in_order(evidence: &Evidence<'_>) -> Result<(), Violation> {
    let started: BTreeSet<EffectId> = evidence
        .events()
        .filter_map(|event| match event {
            Event::DeliveryStarted(e) => Some(e.delivery),
            _ => None,
        })
        .collect();
    let has_keys = evidence.outside.plan.workload.route.is_some_and(|route| route.has_keys);
    let mut seen: Vec<EffectId> = vec![];
    for effect in &evidence.outside.arrived {
        Invariant::Delivery
            .holds(started.contains(effect), || format!("{effect} arrived, and its start is not recorded"))?;
        let delivery = named(*effect);
        if seen.contains(&delivery) {
            Invariant::Delivery.holds(has_keys, || format!("{delivery} arrived twice"))?;
            continue;
        }
        let is_next = seen.last().is_none_or(|last| last.ordinal < delivery.ordinal);
        Invariant::Delivery.holds(is_next, || format!("{delivery} arrived behind {:?}", seen.last()))?;
        seen.push(delivery);
    }
    Ok(())
}

/// Each delivery has exactly one end, which says that it arrived only if it did.
pub(super) fn have_one_end(evidence: &Evidence<'_>) -> Result<(), Violation> {
    let mut open: BTreeSet<EffectId> = BTreeSet::new();
    for event in evidence.events() {
        match event {
            Event::DeliveryWanted(e) => {
                open.insert(e.delivery);
            }
            // They go out with another one, and end with it.
            Event::DeliveryStarted(e) => open.retain(|known| !e.joined.iter().any(|joined| named(*joined) == *known)),
            Event::DeliveryEnded(e) => {
                let delivery = named(e.delivery);
                Invariant::Delivery.holds(open.remove(&delivery), || format!("{delivery} ended twice"))?;
                let arrived = evidence.outside.arrived.iter().any(|effect| named(*effect) == delivery);
                let is_true = e.arrived != Some(true) || arrived;
                Invariant::Delivery.holds(is_true, || format!("{delivery} is said to have arrived"))?;
            }
            _ => {}
        }
    }
    Invariant::Delivery.holds(open.is_empty(), || format!("nothing became of {open:?}"))
}

/// The blocks of a run are the text of its messages, in order, and its reply follows them.
pub(super) fn blocks_are_the_text(evidence: &Evidence<'_>) -> Result<(), Violation> {
    let mut texts: BTreeMap<RunId, (String, String)> = BTreeMap::new();
    let (mut current, mut in_blocks) = (None, false);
    for event in evidence.events() {
        match event {
            Event::RunStarted(e) => (current, in_blocks) = (Some(e.run), e.blocks),
            Event::MessageSealed(e) => {
                if let (Some(run), Some(text), true) = (current, &e.text, in_blocks) {
                    texts.entry(run).or_default().0.push_str(&plain(&said(evidence, text)?));
                }
            }
            Event::DeliveryWanted(e) => {
                let known = e.to.is_some() && (e.kind == DeliveryKind::Block) == e.text.is_some();
                Invariant::Delivery.holds(known, || format!("{} has no address, or another text", e.delivery))?;
                if let Some(text) = &e.text {
                    let is_of_run = in_blocks && current == Some(e.delivery.run);
                    Invariant::Delivery.holds(is_of_run, || format!("{} is a block of no run", e.delivery))?;
                    let whole = said(evidence, text)?;
                    texts.entry(e.delivery.run).or_default().1.push_str(&plain(&whole[e.from as usize..]));
                }
            }
            Event::RunEnded(e) => {
                let (said, sent) = texts.remove(&e.run).unwrap_or_default();
                Invariant::Delivery
                    .holds(said == sent, || format!("run {} said {said:?}, its blocks are {sent:?}", e.run))?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn said(evidence: &Evidence<'_>, body: &Body) -> Result<String, Violation> {
    let bytes = evidence.outside.disk.journal().body(&body.hash);
    let bytes = bytes.map_err(|error| Invariant::Journal.violated(error.to_string()))?.unwrap_or_default();
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A text without blanks: blocks leave out those at their ends.
fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}
