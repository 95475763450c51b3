//! The lines of a script about deliveries.

use engine::{BlockSettings, Command, DeliveryFault, EffectId, EffectKind, Event, Input, ReplyRoute, Report};

use super::World;
use super::script::{Words, find_effect, word};

/// `ops keys blocks=text_end min=10`.
pub(super) fn route(value: &str) -> ReplyRoute {
    let (name, options) = value.split_once(' ').unwrap_or((value, ""));
    let option = |name: &str| options.split(' ').find_map(|one| one.strip_prefix(name));
    let number = |name: &str| option(name).map(|text| text.parse().expect("a number"));
    let usual = BlockSettings::default();
    ReplyRoute {
        name: name.to_owned(),
        has_keys: options.split(' ').any(|one| one == "keys"),
        blocks: BlockSettings {
            mode: option("blocks=").and_then(word).unwrap_or_default(),
            min_chars: number("min=").unwrap_or(usual.min_chars),
            max_chars: number("max=").unwrap_or(usual.max_chars),
            ..usual
        },
        policy: None,
    }
}

/// The input that a line stands for; none if it is not about deliveries.
pub(super) fn input(world: &World, words: &Words) -> Option<Input> {
    let effect = || find_effect(world, words, &[EffectKind::Deliver], None);
    Some(match words.at(0) {
        "redeliver" => Command::Redeliver { delivery: delivery(world, words) }.into(),
        "drop-delivery" => Command::DropDelivery { delivery: delivery(world, words) }.into(),
        "delivered" => Report::Delivered { effect: effect() }.into(),
        "delivery-failed" => {
            let why = words.at(2).to_owned();
            Report::DeliveryFailed { effect: effect(), why, fault: fault(words) }.into()
        }
        _ => return None,
    })
}

fn fault(words: &Words) -> DeliveryFault {
    match words.at(1) {
        "refused" => DeliveryFault::Refused,
        "unknown" => DeliveryFault::Unknown,
        "temporary" => {
            DeliveryFault::Temporary { after_ms: words.option("retry_after").map(|ms| ms.parse().expect("a number")) }
        }
        other => panic!("no fault {other}"),
    }
}

/// The delivery with this number.
fn delivery(world: &World, words: &Words) -> EffectId {
    let known = world.journal.iter().find_map(|record| match &record.event {
        Event::DeliveryWanted(e) if u64::from(e.delivery.ordinal) == words.number(1) => Some(e.delivery),
        _ => None,
    });
    known.expect("a delivery")
}
