//! The labels of metrics. Their names are a contract with those who query them.

use prometheus_client::encoding::EncodeLabelSet;

macro_rules! labels {
    ($($name:ident { $($label:ident: $type:ty),* })*) => {$(
        #[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
        pub(super) struct $name { $(pub(super) $label: $type),* }
    )*};
}

labels! {
    Mode { mode: String }
    Agent { agent: String }
    RunEnd { agent: String, outcome: &'static str }
    ModelName { provider: String, model: String }
    RequestEnd { provider: String, model: String, result: &'static str }
    RequestFailure { provider: String, model: String, class: String }
    Tokens { provider: String, model: String, kind: &'static str }
    Class { class: String }
    CallEnd { tool: String, outcome: String }
    Tool { tool: String }
    Way { result: String }
    Wait { wait: String }
    HttpEnd { route: String, status: u16 }
    State { state: String }
    Lane { lane: String }
    Cooled { provider: String, profile: String, model: String, class: String }
    File { file: &'static str }
    Version { version: String }
}
