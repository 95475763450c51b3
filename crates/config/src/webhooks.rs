//! What becomes a message when another program sends it: the secret of the sender, and the template of the message.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::QueueMode;
use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior};
use models::Secret;
use serde_json::Value;

use super::declared::{ReplyRoute, Webhook, WebhookSignature};
use super::{Config, ConfigError, layers};

/// Steps of a template: what a sender puts into lists must not keep a thread busy.
const FUEL: u64 = 100_000;
/// The name under which errors speak of a template.
const TEMPLATE: &str = "message";

/// A webhook, with all that belongs to it.
#[derive(Debug, Clone)]
pub struct ConfiguredWebhook {
    config: Arc<Config>,
    name: String,
    /// How the sender shows that it has the secret.
    pub signature: WebhookSignature,
    /// The session that receives the messages.
    pub session: String,
    /// What becomes of a message if the session is busy; none = as configured for all.
    pub mode: Option<QueueMode>,
    /// The route that the reply goes to.
    pub reply_to: Option<String>,
}

/// Why a webhook cannot be used now, or with this request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WebhookError {
    /// Its secret cannot be read.
    #[error("the secret of webhook `{name}` cannot be read: {detail}")]
    Secret {
        /// The name of the webhook.
        name: String,
        /// The reason.
        detail: String,
    },
    /// The template fails with what was sent.
    #[error("the template of webhook `{name}` fails: {detail}")]
    Template {
        /// The name of the webhook.
        name: String,
        /// The reason, with the line in the template.
        detail: String,
    },
}

impl Webhook {
    /// The keys that it needs and does not have, with what they take.
    pub(super) fn missing(&self, name: &str) -> Vec<(String, &'static str)> {
        let key = |part: &str| layers::dotted(&["webhooks".to_owned(), name.to_owned(), part.to_owned()]);
        let mut missing = vec![];
        if self.secret.is_none() {
            missing.push((key("secret"), "what its sender shows or signs with, such as \"env:DEPLOY_WEBHOOK_SECRET\""));
        }
        if self.message.is_none() {
            missing.push((key("message"), "the template of a message, as docs/webhooks.md shows"));
        }
        missing
    }

    /// The error of a route that is not configured.
    pub(super) fn unrouted(&self, name: &str, routes: &BTreeMap<String, ReplyRoute>) -> Option<ConfigError> {
        let route = self.reply_to.as_ref().filter(|route| !routes.contains_key(*route))?;
        let key = layers::dotted(&["webhooks".to_owned(), name.to_owned(), "reply_to".to_owned()]);
        Some(ConfigError::UnknownRoute { key, route: route.clone(), known: routes.keys().cloned().collect() })
    }

    /// The error of a template that cannot be read.
    pub(super) fn unreadable(&self, name: &str) -> Option<ConfigError> {
        let error = environment().template_from_str(self.message.as_deref()?).err()?;
        let key = layers::dotted(&["webhooks".to_owned(), name.to_owned(), "message".to_owned()]);
        Some(ConfigError::Template { key, detail: described(&error) })
    }
}

impl Config {
    /// The webhook of this name.
    pub fn webhook(self: &Arc<Self>, name: &str) -> Option<ConfiguredWebhook> {
        let Webhook { signature, session, mode, reply_to, .. } = self.values.webhooks.get(name)?;
        let session = session.clone().unwrap_or_else(|| format!("webhook-{name}"));
        let (signature, mode, reply_to) = (*signature, *mode, reply_to.clone());
        Some(ConfiguredWebhook { config: Arc::clone(self), name: name.to_owned(), signature, session, mode, reply_to })
    }
}

impl ConfiguredWebhook {
    /// The secret, read now. It may block: a command may print it.
    pub fn secret(&self) -> Result<Secret, WebhookError> {
        let source = self.of_config().secret.as_ref().expect("checked when the configuration was read");
        let unreadable = |detail| WebhookError::Secret { name: self.name.clone(), detail };
        self.config.read_key(source).map_err(unreadable)
    }

    /// The message that the template makes of this body and these headers.
    pub fn message(&self, body: &Value, headers: &Value) -> Result<String, WebhookError> {
        let template = self.of_config().message.as_deref().expect("checked when the configuration was read");
        let context =
            minijinja::context! { body => Serde(body), headers => Serde(headers), name => self.name.as_str() };
        let failed =
            |error: minijinja::Error| WebhookError::Template { name: self.name.clone(), detail: described(&error) };
        environment().render_named_str(TEMPLATE, template, context).map_err(failed)
    }

    fn of_config(&self) -> &Webhook {
        &self.config.values.webhooks[&self.name]
    }
}

/// Templates read no files and call nothing of this program. A field that was not sent is nothing, also within what was not sent:
/// senders leave fields out.
pub(super) fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Chainable);
    environment.set_fuel(Some(FUEL));
    environment
}

/// One line of an error.
pub(super) fn described(error: &minijinja::Error) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{Environment as Variables, FILE, FlagValues};
    use super::*;

    fn load(section: &str) -> Result<Arc<Config>, ConfigError> {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join(FILE), format!("[webhooks.deploy]\n{section}\n")).unwrap();
        let variables = Variables::of(&[("HOOK", "hook-secret-0123456789"), ("HOME", "/u")], "/now");
        Config::load(home.path(), &variables, FlagValues::default()).map(Arc::new)
    }

    #[test]
    fn r60_a_webhook_makes_a_message_of_what_was_sent() {
        let config =
            load("secret = \"env:HOOK\"\nmessage = \"{{ body.a.b }}, {{ body.no.such }}{{ headers['x-event'] }}\"")
                .unwrap();
        assert!(config.webhook("other").is_none());
        let webhook = config.webhook("deploy").unwrap();
        assert_eq!((&*webhook.session, webhook.signature), ("webhook-deploy", WebhookSignature::Token));
        assert_eq!(webhook.secret().unwrap().reveal(), "hook-secret-0123456789");
        let message = webhook.message(&json!({ "a": { "b": "<x>" } }), &json!({ "x-event": "push" }));
        assert_eq!(message.unwrap(), "<x>, push");
        assert!(config.secrets().contains(&"hook-secret-0123456789".to_owned()), "it is masked");
    }

    #[test]
    fn r60_what_a_webhook_lacks_is_named() {
        for (section, expected) in [
            ("message = \"x\"", "`webhooks.deploy.secret` is missing"),
            ("secret = \"env:HOOK\"", "`webhooks.deploy.message` is missing"),
            ("secret = \"env:HOOK\"\nmessage = \"{{ body\"", "`webhooks.deploy.message` is no template: syntax error"),
        ] {
            let error = load(section).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
            assert!(!error.hint().is_empty());
        }
        let config = load(
            "secret = \"env:NONE\"\nmessage = \"{% for a in range(9999) %}{% for b in range(9999) %}x{% endfor %}{% endfor %}\"",
        );
        let webhook = config.unwrap().webhook("deploy").unwrap();
        assert!(webhook.secret().unwrap_err().to_string().contains("NONE is not set"));
        let failed = webhook.message(&json!({}), &json!({})).unwrap_err();
        assert!(failed.to_string().contains("fuel"), "{failed}");
    }
}
