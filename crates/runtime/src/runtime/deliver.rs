//! What sends things out of a session: the seam between the outbox and the routes.

use std::fmt;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use engine::{Address, DeliveryFault, DeliveryKind, EffectId, SessionId, Timestamp};
use journal::Journal;
use models::Secret;
use serde_json::Value;

/// Where a route leads.
#[derive(Debug, Clone)]
pub enum RouteTarget {
    /// A request is sent to this address, signed with the secret if there is one.
    #[allow(missing_docs, reason = "the fields say it themselves")]
    Webhook {
        url: String,
        secret: Option<Secret>,
        /// What is sent in place of the JSON of the delivery.
        body: Option<BodyTemplate>,
    },
    /// A line is appended to this file.
    #[allow(missing_docs, reason = "the field says it itself")]
    File { path: PathBuf },
}

/// Makes the body of a request from the JSON of a delivery.
#[derive(Clone)]
pub struct BodyTemplate(Arc<RenderBody>);

type RenderBody = dyn Fn(&Value) -> Result<String, String> + Send + Sync;

impl BodyTemplate {
    /// The template that this function renders. Its error is for people.
    pub fn new(render: impl Fn(&Value) -> Result<String, String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(render))
    }

    /// The body.
    pub fn render(&self, delivery: &Value) -> Result<String, String> {
        (self.0)(delivery)
    }
}

impl fmt::Debug for BodyTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BodyTemplate").finish_non_exhaustive()
    }
}

/// One try to send something.
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct DeliveryRequest {
    /// The try; its first one names the delivery.
    pub effect: EffectId,
    pub kind: DeliveryKind,
    pub session: SessionId,
    /// The key of the session, `agent:AGENT:NAME`.
    pub key: String,
    pub to: Address,
    pub target: RouteTarget,
    /// The text; none = it is the reply of the run.
    pub text: Option<Arc<str>>,
    pub wanted_at: Timestamp,
    /// Whether an earlier try may have arrived.
    pub may_be_there: bool,
    pub journal: Arc<dyn Journal>,
}

/// Why a try failed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct DeliveryTrouble {
    /// For people; without secrets.
    pub why: String,
    pub fault: DeliveryFault,
}

/// A try that is under way. Dropping it leaves its outcome unknown.
pub type DeliveryFuture = Pin<Box<dyn Future<Output = Result<(), DeliveryTrouble>> + Send>>;

/// Sends what goes out to routes.
pub trait Deliver: Send + Sync {
    /// Sends it once.
    fn deliver(&self, request: DeliveryRequest) -> DeliveryFuture;
}
