//! Model APIs behind one trait: the offline model and the wire adapters.
//!
//! A [`Model`] takes a [`Request`] and streams the answer. It keeps no state between requests, does not retry (it only reports
//! an [`engine::Failure`]) and knows nothing about runs and journals.

mod anthropic;
mod catalogue;
mod classify;
mod conversation;
mod effort;
mod endpoint;
mod fault;
mod files;
mod gemini;
mod left_out_files;
mod levels;
mod limits;
mod login;
mod model;
mod model_set;
mod normalize;
mod offline;
mod ollama;
mod openai_chat;
mod openai_responses;
mod presets;
mod rendering;
mod sampling;
mod secret_parts;
mod served_models;
mod structured;
mod wait;
mod wire;

pub use catalogue::{ModelInfo, Origin, catalogue_date, default_model, figures_date, known_models, lookup, token_rate};
pub use effort::chat_takes_effort;
pub use endpoint::{Api, Endpoint, SECRET_HEADER_BYTES, Secret};
pub use left_out_files::files_left_out;
pub use levels::{Levels, level_name, levels_apart};
pub use login::{Login, Logins, may_hold_tokens};
pub use model::{
    AssistantMessage, BlockContent, CallOf, ContentBlock, File, Message, Model, ModelEvent, Request, ResponseStream,
};
pub use model_set::ModelSet;
pub use normalize::replaced_ids;
pub use offline::Offline;
pub use presets::{ProviderPreset, provider_preset, provider_presets};
pub use rendering::Cached;
pub use secret_parts::{secrets_of_address, secrets_of_header};
pub use served_models::{local_models, served_models};
pub use wire::tls::client_builder;
