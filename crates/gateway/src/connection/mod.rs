//! One client connection: the handshake, the requests, and what the client receives. Each connection is one task, so a
//! faulty client harms only itself.

mod send_buffer;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use journal::SPACE_BYTES;
use protocol::deprecated::{Deprecated, Surface};
use protocol::limits::{FIRST_FRAME_BYTES, FRAME_BYTES, HANDSHAKE_MS, OFF_THREAD_BYTES, REQUESTS, TICK_MS};
use protocol::method::{
    Cap, ClientInfo, Connect, ConnectParams, Features, HelloOk, METHODS, Method, Policy, ServerInfo,
};
use protocol::notice::{DiskFull, DiskFullSession, Dropped, EVENTS, Notice, Shutdown, Tick};
use protocol::part::split;
use protocol::{
    ErrorShape, EventFrame, Frame, FrameError, FrameReader, PROTOCOL, Request, Response, Scope, Scopes, encode,
};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{Notify, Semaphore, SemaphorePermit, watch};
use tools::ProcessOrigin;

use crate::error::Error;
use crate::methods;
use crate::service::Service;

pub(crate) use send_buffer::{Chunk, SendBuffer, Slow};

/// How long a client that is being closed has to read its buffered frames.
const FAREWELL: Duration = Duration::from_secs(5);

/// The number of reading requests of one client that run at once.
const READS: usize = 2;

/// Who is at the other end of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Identity {
    /// The process there; none = this one.
    pub(crate) process: Option<u32>,
    /// What it may do.
    pub(crate) scopes: Scopes,
}

impl Identity {
    /// A process of the user of the home.
    pub(crate) fn of_user(process: Option<u32>) -> Self {
        Self { process, scopes: Scopes::ALL }
    }
}

/// A client that has completed the handshake.
pub(crate) struct Caller {
    pub(crate) service: Arc<Service>,
    pub(crate) number: u64,
    pub(crate) client: ClientInfo,
    /// The process at the other end of the socket; none in this process.
    pub(crate) peer: Option<u32>,
    /// What it may do.
    pub(crate) scopes: Scopes,
    /// Whether that process was inside a tool call when it connected, or had exited by then.
    in_call: bool,
    /// What that process had been when this was found out; none in this process.
    origin: Option<ProcessOrigin>,
    /// Whether a person can answer approval requests there.
    pub(crate) can_approve: bool,
    pub(crate) buffer: Arc<SendBuffer>,
    /// Large responses are built one at a time: the next one is built when the one before it is on its way.
    reads: Semaphore,
    /// One subscription at a time has missed lines in memory.
    pages: Semaphore,
    next_subscription: AtomicU64,
    /// Set when the client does not read: only what is already buffered is still sent.
    dropped: Notify,
}

impl Caller {
    /// Whether the other end is inside a tool call: such a client may read but not act.
    pub(crate) fn is_in_call(&self) -> bool {
        let has_moved = |peer: &u32| ProcessOrigin::of(*peer) != self.origin;
        self.in_call || self.peer.filter(has_moved).is_some_and(tools::is_in_call)
    }

    /// The process at the other end, for people: its number and its name.
    pub(crate) fn process(&self) -> String {
        let pid = self.peer.unwrap_or_else(std::process::id);
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        // A process chooses its name.
        let name: String = name.chars().filter(char::is_ascii_graphic).collect();
        format!("{pid} ({name})")
    }

    /// Sends the response to a request.
    pub(crate) fn respond(&self, response: Response) {
        self.buffer.put(encoded(response));
    }

    /// The same for a response of any size: a large one is encoded on a thread that may block.
    pub(crate) async fn respond_with_any(&self, response: Response) {
        if is_small(&response.payload, &mut { OFF_THREAD_BYTES }) {
            return self.respond(response);
        }
        // A shutdown waits for it, as for the read that it is made of.
        let read = self.service.journal_to_read();
        if let Ok(bytes) = tokio::task::spawn_blocking(move || encoded(response)).await {
            self.buffer.put(bytes);
        }
        drop(read);
    }

    /// Waits until a response of any size may be read: only as fast as the client takes them.
    pub(crate) async fn permit_to_read(&self) -> ReadPermit<'_> {
        let of_client = self.reads.acquire().await.ok();
        self.buffer.wait_for_space().await;
        let of_all = self.service.reading.acquire().await.ok();
        self.service.make_space();
        ReadPermit { _of_client: of_client, _of_all: of_all }
    }

    /// Waits until missed lines may be read: they are on their way to the client before the next ones are read.
    pub(crate) async fn permit_to_catch_up(&self) -> PagePermit<'_> {
        let of_client = self.pages.acquire().await.ok();
        self.buffer.wait_until_empty().await;
        let of_all = self.service.reading.acquire().await.ok();
        self.service.make_space();
        PagePermit { _of_client: of_client, of_all }
    }

    /// Returns the number of the next subscription.
    pub(crate) fn next_subscription(&self) -> u64 {
        self.next_subscription.fetch_add(1, Ordering::Relaxed)
    }

    /// Sends an event that belongs to no subscription. A client without space for it is closed.
    pub(crate) fn notify<N: Notice>(&self, notice: &N) {
        if self.buffer.offer([Chunk::Own(frame(notice))]) == Err(Slow) {
            self.service.hub.drop_slow(self);
        }
    }

    /// Closes the client for this reason.
    pub(crate) fn close(&self, error: &ErrorShape) {
        self.buffer.put(frame(error));
        self.buffer.finish();
        self.dropped.notify_one();
    }

    /// Closes a client that reads too slowly. The last frame says from which position it can resume.
    pub(crate) fn drop_slow(&self, dropped: &Dropped) {
        self.buffer.put(frame(dropped));
        self.buffer.finish();
        self.dropped.notify_one();
    }
}

/// Permits a response to be read. Held until the response is on its way.
pub(crate) struct ReadPermit<'a> {
    _of_client: Option<SemaphorePermit<'a>>,
    _of_all: Option<SemaphorePermit<'a>>,
}

/// Permits missed lines to be read. Held until they are on their way.
pub(crate) struct PagePermit<'a> {
    _of_client: Option<SemaphorePermit<'a>>,
    of_all: Option<SemaphorePermit<'a>>,
}

impl PagePermit<'_> {
    /// They are read: others may read while the client takes them.
    pub(crate) fn has_read(&mut self) {
        self.of_all = None;
    }
}

/// A response as it is sent: texts that make it longer than a frame are in parts before it.
fn encoded(response: Response) -> Vec<u8> {
    let id = response.id.clone();
    let mut frame = Frame::Response(response);
    let bytes = encode(&frame);
    if bytes.len() <= FRAME_BYTES {
        return bytes;
    }
    let parts = match &mut frame {
        Frame::Response(response) => split(&mut response.payload),
        Frame::Request(_) | Frame::Event(_) => vec![],
    };
    let bytes = encode(&frame);
    if bytes.len() > FRAME_BYTES {
        // The client would close the connection.
        return encode(&Frame::Response(Response::failed(id, Error::TooLarge.shape())));
    }
    parts.iter().map(self::frame).chain([bytes]).flatten().collect()
}

/// Whether a value is shorter than what is left of a bound, roughly.
fn is_small(value: &Value, left: &mut usize) -> bool {
    let bytes = if let Value::String(text) = value { text.len() } else { size_of::<Value>() };
    *left = left.saturating_sub(bytes);
    *left > 0
        && match value {
            Value::Array(values) => values.iter().all(|value| is_small(value, left)),
            Value::Object(fields) => fields.values().all(|value| is_small(value, left)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
        }
}

/// Encodes a notice for the wire.
pub(crate) fn frame<N: Notice>(notice: &N) -> Vec<u8> {
    let payload = serde_json::to_value(notice).expect("a notice is plain data");
    encode(&Frame::Event(EventFrame { event: N::NAME.to_owned(), payload, seq: None, subscription: None }))
}

/// The halves of a client's stream, whatever it is: everything behind them is compiled once.
pub(crate) type ReadHalf = Box<dyn AsyncRead + Send + Unpin>;
pub(crate) type WriteHalf = Box<dyn AsyncWrite + Send + Unpin>;

/// Serves one client until it disconnects or the service stops.
pub(crate) async fn serve(service: &Arc<Service>, identity: Identity, read: ReadHalf, write: WriteHalf) {
    let buffer = Arc::new(SendBuffer::default());
    let writing = write_out(&buffer, write);
    let serving = async {
        let mut frames = FrameReader::new(read, FIRST_FRAME_BYTES);
        match shake_hands(service, identity, &mut frames, &buffer).await {
            Ok(Some(caller)) => {
                let _admitted = Admitted(&caller);
                frames.set_limit(FRAME_BYTES);
                answer(&caller, &mut frames).await;
            }
            Ok(None) => {}
            Err(error) => buffer.put(frame(&error)),
        }
        buffer.finish();
    };
    tokio::pin!(writing, serving);
    tokio::select! {
        // If the client cannot be written to, it is gone: its requests are dropped, but the runs continue.
        () = &mut writing => {}
        () = &mut serving => drop(tokio::time::timeout(FAREWELL, writing).await),
    }
}

/// Removes the client from the service when dropped.
struct Admitted<'a>(&'a Caller);

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        self.0.service.forget(self.0.number);
    }
}

async fn write_out(buffer: &SendBuffer, mut write: WriteHalf) {
    while let Some(chunk) = buffer.take().await {
        if write.write_all(chunk.bytes()).await.is_err() {
            return;
        }
    }
    // A client that is gone needs no last frame.
    let _ = write.shutdown().await;
}

/// Reads the first frame, which must request `connect`. Returns `None` if the client disconnected before it.
async fn shake_hands(
    service: &Arc<Service>,
    Identity { process: peer, scopes }: Identity,
    frames: &mut FrameReader<ReadHalf>,
    buffer: &Arc<SendBuffer>,
) -> Result<Option<Arc<Caller>>, ErrorShape> {
    let mut leaving = service.leaving();
    let first = tokio::select! {
        first = tokio::time::timeout(Duration::from_millis(HANDSHAKE_MS), frames.next()) => first,
        Ok(_) = leaving.wait_for(|leaving| *leaving) => return Ok(None),
    };
    let late = || invalid(format!("no handshake within {} s", HANDSHAKE_MS / 1000));
    let request = match first.map_err(|_| late())? {
        Ok(Some(Frame::Request(request))) => request,
        Ok(Some(_)) => return Err(invalid("the first frame must be a request".to_owned())),
        Ok(None) | Err(FrameError::Io(_)) => return Ok(None),
        Err(error) => return Err(invalid(error.to_string())),
    };
    match connected(&request) {
        Ok(params) => {
            // A process that has exited may have left its connection to one that it started.
            let origin = peer.and_then(ProcessOrigin::of);
            let in_call = peer.is_some_and(|peer| !has_process(peer) || tools::is_in_call(peer));
            let caller = service.admit(|number| Caller {
                service: Arc::clone(service),
                number,
                can_approve: params.caps.contains(&Cap::Asks) && scopes.allow(Scope::Approve) && !in_call,
                client: params.client,
                peer,
                scopes,
                in_call,
                origin,
                buffer: Arc::clone(buffer),
                reads: Semaphore::new(READS),
                pages: Semaphore::new(1),
                next_subscription: AtomicU64::new(1),
                dropped: Notify::new(),
            });
            let hello = serde_json::to_value(hello(&caller)).expect("a hello is plain data");
            caller.respond(Response::ok(request.id, hello));
            service.approvals.attach(&caller);
            Ok(Some(caller))
        }
        Err(error) => {
            buffer.put(encode(&Frame::Response(Response::failed(request.id, error))));
            Ok(None)
        }
    }
}

fn has_process(pid: u32) -> bool {
    // 0 is a process that this system does not number, such as one outside of this container.
    pid == 0 || std::path::Path::new("/proc").join(pid.to_string()).exists()
}

/// Returns the parameters of the first request if it is `connect` in a supported version.
fn connected(request: &Request) -> Result<ConnectParams, ErrorShape> {
    if request.method != Connect::NAME {
        return Err(invalid(format!("the first request must be `connect`, not `{}`", request.method)));
    }
    let params: ConnectParams = methods::params::<Connect>(request.params.clone())?;
    if !(params.min_protocol..=params.max_protocol).contains(&PROTOCOL) {
        return Err(Error::invalid(
            format!("this limulus speaks version {PROTOCOL} of the protocol, not {}", params.max_protocol),
            "use the same version of limulus on both sides",
        )
        .shape());
    }
    Ok(params)
}

fn hello(caller: &Caller) -> HelloOk {
    let service = &caller.service;
    HelloOk {
        kind: "hello-ok".to_owned(),
        protocol: PROTOCOL,
        server: ServerInfo {
            version: service.version.clone(),
            conn_id: caller.number.to_string(),
            pid: std::process::id(),
            epoch: service.runtime.journal().epoch().0,
            kind: Some(service.kind()),
        },
        features: Features {
            methods: METHODS.iter().map(|method| method.name).chain(old_methods()).map(str::to_owned).collect(),
            events: EVENTS.iter().map(|event| event.name.to_owned()).collect(),
        },
        policy: Policy::default(),
    }
}

/// The capabilities, with the old names that clients may still look for.
fn old_methods() -> impl Iterator<Item = &'static str> {
    Deprecated::of(Surface::Method).map(|row| row.old)
}

fn invalid(what: String) -> ErrorShape {
    Error::invalid(what, "docs/protocol.md describes the protocol").shape()
}

/// Serves requests concurrently. A client that has closed its writing end still receives the responses to its requests.
async fn answer(caller: &Arc<Caller>, frames: &mut FrameReader<ReadHalf>) {
    let mut requests = FuturesUnordered::new();
    let mut reads = true;
    let mut leaving = caller.service.leaving();
    let mut parked = caller.service.runtime.disk_full_waits();
    if !parked.borrow_and_update().is_empty() {
        caller.notify(&waiting(&parked));
    }
    let mut tick = tokio::time::interval(Duration::from_millis(TICK_MS));
    tick.tick().await;
    while reads || !requests.is_empty() {
        tokio::select! {
            biased;
            Some(()) = requests.next(), if !requests.is_empty() => {}
            () = caller.dropped.notified() => return,
            Ok(_) = leaving.wait_for(|leaving| *leaving) => {
                caller.notify(&Shutdown { reason: "the owner of the home is shutting down".to_owned() });
                return;
            }
            frame = next_frame(caller, frames), if reads && requests.len() < REQUESTS => match frame {
                Ok(Some(request)) => requests.push(methods::carry_out(Arc::clone(caller), request)),
                Ok(None) => {
                    reads = false;
                    caller.service.approvals.detach(caller.number);
                }
                Err(error) => return caller.notify(&error),
            },
            Ok(()) = parked.changed() => {
                caller.notify(&waiting(&parked));
            }
            _ = tick.tick() => caller.notify(&Tick { ts: caller.service.runtime.clock().now() }),
        }
    }
}

/// The sessions that wait for disk space.
fn waiting(parked: &watch::Receiver<BTreeMap<String, runtime::DiskFullWait>>) -> DiskFull {
    let sessions = parked.borrow();
    let session = |(key, parked): (&String, &runtime::DiskFullWait)| DiskFullSession {
        session_key: key.clone(),
        error: match &parked.error {
            // The run resumes by itself, so the error's advice about `resume` does not apply here.
            journal::Error::Full { path } => format!("no space left in {}", path.parent().unwrap_or(path).display()),
            error => error.to_string(),
        },
        since: parked.since,
        next_look: parked.next_look,
    };
    DiskFull { sessions: sessions.iter().map(session).collect(), needs_bytes: SPACE_BYTES }
}

/// Reads the next request once the send buffer has space. Returns `None` when no further request will come.
async fn next_frame(caller: &Caller, frames: &mut FrameReader<ReadHalf>) -> Result<Option<Request>, ErrorShape> {
    caller.buffer.wait_for_space().await;
    match frames.next().await {
        Ok(Some(Frame::Request(request))) if request.id.is_empty() => Err(invalid("a request needs an id".to_owned())),
        Ok(Some(Frame::Request(request))) => Ok(Some(request)),
        Ok(Some(_)) => Err(invalid("a client sends requests only".to_owned())),
        Ok(None) | Err(FrameError::Io(_) | FrameError::Cut) => Ok(None),
        Err(error) => Err(invalid(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use engine::{Candidate, Failure, FailureClass, Overrides, Settings, Timestamp};
    use journal::Memory;
    use models::{Endpoint, ModelSet};
    use protocol::limits::BUFFERED_BYTES;
    use runtime::{IdlePolicy, Resolver};

    use super::*;
    use crate::ServiceOptions;
    use crate::events::Target;

    /// A model set that refuses every request.
    struct Nothing;

    impl Resolver for Nothing {
        fn settings(&self, _: &str, _: runtime::SessionContext<'_>, _: &Overrides) -> Result<Settings, Failure> {
            Err(Failure::new(FailureClass::Refused, "nothing runs here"))
        }

        fn endpoint(&self, _: &Candidate) -> Result<Endpoint, Failure> {
            Err(Failure::new(FailureClass::Refused, "nothing runs here"))
        }
    }

    /// A client of a home in which nothing happens.
    fn caller(home: &std::path::Path) -> Arc<Caller> {
        admitted(&service(home))
    }

    fn service(home: &std::path::Path) -> Arc<Service> {
        let journal = Memory::new();
        journal.open();
        let options = ServiceOptions {
            home: home.to_owned(),
            supervisor: "/nowhere".into(),
            resolver: Box::new(Nothing),
            models: ModelSet::new(),
            idle: IdlePolicy::default(),
            tenure: crate::Tenure::Service,
            holds_runs: false,
            version: "0".to_owned(),
            notes: tokio::sync::mpsc::channel(1).0,
        };
        Service::start(Arc::new(journal), options)
    }

    fn admitted(service: &Arc<Service>) -> Arc<Caller> {
        let name = || "test".to_owned();
        let client = ClientInfo { id: name(), version: name(), platform: name(), mode: name() };
        service.admit(|number| Caller {
            service: Arc::clone(service),
            number,
            can_approve: true,
            client,
            peer: None,
            scopes: Scopes::ALL,
            in_call: false,
            origin: None,
            buffer: Arc::default(),
            reads: Semaphore::new(READS),
            pages: Semaphore::new(1),
            next_subscription: AtomicU64::new(1),
            dropped: Notify::new(),
        })
    }

    /// R60: the service refuses each method to a client without its scope, and a message that would do more than its scope says.
    #[tokio::test]
    async fn r60_a_client_does_only_what_it_has_a_scope_for() {
        let home = tempfile::tempdir().unwrap();
        let service = service(home.path());
        for scope in Scope::ALL {
            let scopes: Scopes = [scope].into_iter().collect();
            let client = ClientInfo {
                id: "test".to_owned(),
                version: "0".to_owned(),
                platform: "test".to_owned(),
                mode: "test".to_owned(),
            };
            let params = ConnectParams { min_protocol: 1, max_protocol: 1, client, caps: vec![] };
            let stream = service.attach_for(Identity { process: None, scopes });
            let (client, _, _events) = protocol::Client::connect(stream, params).await.unwrap();
            let mut refused = vec![];
            let code = async |method: &str, params: Value| match client.request(method, params).await {
                Err(protocol::ClientError::Answered(error)) => Some(error.code),
                _ => None,
            };
            for method in METHODS.iter().filter(|method| !method.is_allowed(scopes)) {
                let code = code(method.name, Value::Null).await;
                assert_eq!(code, Some(protocol::ErrorCode::Forbidden), "{scope}: {}", method.name);
                refused.push(method.name);
            }
            assert_eq!(refused.is_empty(), scope == Scope::Admin);
            let message = |more: &str| {
                let text = format!(r#"{{"message": " ", "sessionKey": "main", "idempotencyKey": "k"{more}}}"#);
                serde_json::from_str::<Value>(&text).unwrap()
            };
            let list = code("approvals.list", Value::Null).await;
            assert_eq!(list, None, "who may answer approval requests may see them, and so may who reads: {scope}");
            if scope == Scope::Write {
                let forbidden = Some(protocol::ErrorCode::Forbidden);
                assert_eq!(code("agent", message(r#", "allow": true"#)).await, forbidden);
                assert_eq!(code("agent", message(r#", "noSandbox": true"#)).await, forbidden);
                assert_eq!(code("agent", message(r#", "workspace": "/etc""#)).await, forbidden);
                assert_eq!(code("agent", message("")).await, Some(protocol::ErrorCode::InvalidRequest));
                assert_eq!(code("health", Value::Null).await, None, "who may write may read");
            }
        }
    }

    /// R43: frames outside subscriptions can also overflow the buffer.
    #[tokio::test]
    async fn r43_a_frame_that_overflows_the_buffer_drops_the_client_with_its_cursors() {
        let notices: [fn(&Caller); 2] =
            [|caller| caller.notify(&Tick { ts: Timestamp(1) }), |caller| caller.notify(&DiskFull::default())];
        for notify in notices {
            let home = tempfile::tempdir().unwrap();
            let caller = caller(home.path());
            let hub = &caller.service.hub;
            hub.begin(&caller, 7, Target::Home, "").unwrap();
            hub.begin_at(caller.number, 7, "home:1.4");
            caller.buffer.offer([Chunk::Own(vec![b'\n'; BUFFERED_BYTES])]).unwrap();
            notify(&caller);
            let mut bytes = vec![];
            while let Some(more) = caller.buffer.take().await {
                bytes.extend(more.bytes());
            }
            let last: serde_json::Value = serde_json::from_slice(&bytes[BUFFERED_BYTES..]).unwrap();
            assert_eq!(last["event"], "dropped");
            let stands = serde_json::json!([{ "subscription": 7, "cursor": "home:1.4#" }]);
            assert_eq!(last["payload"]["subscriptions"], stands);
            assert!(!hub.end(caller.number, 7), "its subscription is over");
        }
    }

    /// R60: what waits for all clients together has a bound: the client with the most is closed, and the others are not.
    #[tokio::test]
    async fn r60_the_client_with_the_most_is_closed_when_all_together_have_too_much() {
        let home = tempfile::tempdir().unwrap();
        let service = service(home.path());
        let callers: Vec<_> = (0..4).map(|_| admitted(&service)).collect();
        let waiting = |most: usize| callers.iter().map(move |caller| caller.buffer.bytes() / most).collect::<Vec<_>>();
        let mib = 1 << 20;
        for (caller, size) in callers.iter().zip([10, 30, 20, 4]) {
            service.hub.begin(caller, 7, Target::Home, "").unwrap();
            caller.buffer.put(vec![b'\n'; size * mib]);
        }
        service.make_space();
        assert_eq!(waiting(mib), [10, 30, 20, 4], "all of it is within the bound");
        callers[0].buffer.put(vec![b'\n'; mib]);
        service.make_space();
        assert_eq!(waiting(mib), [11, 0, 20, 4]);
        assert!(!service.hub.end(callers[1].number, 7) && service.hub.end(callers[2].number, 7));
        callers[1].buffer.put(vec![b'\n'; mib]);
        assert_eq!(callers[1].buffer.bytes(), 0, "nothing more waits for it");
    }

    /// R43: texts that make a response longer than a frame come before it.
    #[test]
    fn r43_a_response_that_is_too_long_is_sent_in_parts() {
        let text = "\u{1}".repeat(FRAME_BYTES / 6);
        let bytes = encoded(Response::ok("7", serde_json::json!({ "text": text, "status": "ok" })));
        let frames = bytes.split_inclusive(|byte| *byte == b'\n').map(|line| serde_json::from_slice(line).unwrap());
        let mut frames: Vec<Frame> = frames.collect();
        let Some(Frame::Response(mut last)) = frames.pop() else { panic!("the response comes last") };
        let mut parts = protocol::part::Parts::default();
        for frame in frames {
            let Frame::Event(EventFrame { event, payload, .. }) = frame else { panic!("{frame:?}") };
            assert_eq!(event, "part");
            parts.add(serde_json::from_value(payload).unwrap()).unwrap();
        }
        parts.join(&mut last.payload);
        assert_eq!((last.id.as_str(), last.payload["text"].as_str()), ("7", Some(&*text)));
        // What has no long text cannot be sent.
        let many = serde_json::json!({ "rows": vec!["\u{1}".repeat(100_000); 60] });
        let refused: Frame = serde_json::from_slice(&encoded(Response::ok("8", many))).unwrap();
        assert!(matches!(refused, Frame::Response(Response { ok: false, .. })));
    }
}
