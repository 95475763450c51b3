//! Where replies and messages go: what a run needs to know of routes, and where they lead, with their secrets.

use std::sync::Arc;

use engine::{BlockSettings, Overrides, ReplySettings};
use minijinja::value::Serde;
use runtime::{BodyTemplate, RouteTarget};

use super::declared::ReplyRoute;
use super::layers::{self, Layers};
use super::webhooks::{described, environment};
use super::{Config, ConfigError};

/// The name under which errors speak of a template.
const TEMPLATE: &str = "body";
/// Names that clients give to where their messages come from: a route of that name would receive their replies.
const TAKEN: &[&str] = &["socket", "websocket", "openai", "webhook", "cron", "user"];

impl ReplyRoute {
    /// What is wrong with the route of this name.
    pub(super) fn wrong(&self, name: &str, layers: &Layers) -> Vec<ConfigError> {
        let key = |part: &str| layers::dotted(&["routes".to_owned(), name.to_owned(), part.to_owned()]);
        let mut wrong = vec![];
        if TAKEN.contains(&name) {
            wrong.push(ConfigError::RouteName { key: layers::dotted(&["routes".to_owned(), name.to_owned()]) });
        }
        if self.url.is_none() && self.file.is_none() && !layers.is_wrong(&key("url")) && !layers.is_wrong(&key("file"))
        {
            let expected = "the address of a webhook, such as \"env:OPS_WEBHOOK_URL\"; or set `file`".to_owned();
            wrong.push(ConfigError::Missing { key: key("url"), expected });
        }
        if self.url.is_some() && self.file.is_some() {
            wrong.push(ConfigError::RouteToBoth { key: key("file") });
        }
        let body = self.body.as_deref().and_then(|body| environment().template_from_str(body).err());
        wrong.extend(body.map(|error| ConfigError::Template { key: key("body"), detail: described(&error) }));
        wrong
    }
}

impl Config {
    /// The names of the routes.
    pub fn routes(&self) -> impl Iterator<Item = &str> {
        self.values.routes.keys().map(String::as_str)
    }

    /// What a run needs to know to send its reply.
    pub(super) fn reply(&self, overrides: &Overrides) -> ReplySettings {
        let values = &self.values.reply;
        let usual = BlockSettings {
            mode: values.blocks,
            min_chars: values.block_min_chars.min(values.block_max_chars),
            max_chars: values.block_max_chars,
            break_at: values.break_at,
        };
        let route = |(name, route): (&String, &ReplyRoute)| engine::ReplyRoute {
            name: name.clone(),
            // A line of a file has the key of what it brings.
            has_keys: route.resend || route.file.is_some(),
            blocks: BlockSettings { mode: route.blocks.unwrap_or(usual.mode), ..usual },
            policy: route.policy,
        };
        ReplySettings {
            routes: self.values.routes.iter().map(route).collect(),
            reasoning: overrides.reasoning.unwrap_or(values.reasoning),
            verbose: overrides.verbose,
        }
    }

    /// Where a route leads, read now. It may block: a command may print the address. An error is for people.
    pub(super) fn route_target(self: &Arc<Self>, name: &str) -> Result<RouteTarget, String> {
        let route = self.values.routes.get(name);
        let route =
            route.ok_or_else(|| format!("no route is called `{name}`; [routes.{name}] in config.toml makes one"))?;
        if let Some(file) = &route.file {
            let path = self.environment.absolute(file).map_err(|error| error.to_string())?;
            let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
            let real = path.canonicalize().ok().or_else(|| Some(folder?.join(path.file_name()?)));
            let home = self.home().canonicalize().unwrap_or_else(|_| self.home().to_owned());
            if real.is_some_and(|real| real.starts_with(home)) {
                return Err(format!("{} is in the home, whose files only this program writes", path.display()));
            }
            return Ok(RouteTarget::File { path });
        }
        let read = |what: &str, source| {
            self.read_key(source).map_err(|detail| format!("the {what} of route `{name}` cannot be read: {detail}"))
        };
        let url = route.url.as_ref().ok_or_else(|| format!("route `{name}` has no address"))?;
        let url = read("address", url)?.reveal().to_owned();
        let secret = route.secret.as_ref().map(|secret| read("secret", secret)).transpose()?;
        let body = route.body.clone().map(|template| {
            BodyTemplate::new(move |delivery| {
                environment().render_named_str(TEMPLATE, &template, Serde(delivery)).map_err(|error| described(&error))
            })
        });
        Ok(RouteTarget::Webhook { url, secret, body })
    }
}
