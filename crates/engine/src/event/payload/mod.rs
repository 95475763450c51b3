//! One payload for each kind of event, a file an aggregate: JSON on disk, no unknown fields.

mod budget;
mod call;
mod compaction;
mod delivery;
mod files;
mod ledger;
mod message;
mod process;
mod request;
mod run;
mod session;

pub use budget::*;
pub use call::*;
pub use compaction::*;
pub use delivery::*;
pub use files::*;
pub use ledger::*;
pub use message::*;
pub use process::*;
pub use request::*;
pub use run::*;
pub use session::*;

macro_rules! payload {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name { $($(#[$field_doc])* pub $field: $type,)* }
    )*};
}
use payload;

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
