//! The description of the HTTP API in OpenAPI, made of the list of methods; `docs/openapi.json` is checked against it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{env, fs};

use protocol::method::{Connect, EventsSubscribe, EventsUnsubscribe, METHODS, Method as _, OwnerHandover};
use protocol::schema;
use serde_json::{Map, Value, json};

/// Resources: verb, path, the method that they are, and the parameter that is in the path.
const RESOURCES: [(&str, &str, &str, Option<&str>); 6] = [
    ("get", "/v1/runs", "runs.list", None),
    ("post", "/v1/runs", "agent", None),
    ("get", "/v1/runs/{id}", "runs.show", Some("run")),
    ("get", "/v1/sessions", "sessions.list", None),
    ("get", "/v1/sessions/{id}", "sessions.show", Some("sessionKey")),
    ("get", "/v1/approvals", "approvals.list", None),
];

/// Streams of events: path, and what they show.
const EVENTS: [(&str, &str); 3] = [
    ("/v1/runs/{id}/events", "The lines of a run from its beginning, until it has ended"),
    ("/v1/sessions/{id}/events", "The lines of a session from now on"),
    ("/v1/events", "The lines of all sessions from now on"),
];

/// What is there besides: verb, path, what it does, the type of its response, and whether it needs no token.
const OTHERS: [(&str, &str, &str, &str, bool); 8] = [
    ("get", "/healthz", "The process is there", "application/json", true),
    ("get", "/readyz", "Whether it can record what it accepts", "application/json", true),
    ("get", "/metrics", "What Prometheus collects", "application/openmetrics-text", false),
    ("get", "/v1/models", "The agents, as models of the API of OpenAI", "application/json", false),
    ("get", "/v1/models/{name}", "An agent as a model", "application/json", false),
    ("post", "/v1/chat/completions", "An agent answers, by the API of OpenAI", "application/json", false),
    ("post", "/v1/responses", "An agent answers, by the newer form of that API", "application/json", false),
    (
        "post",
        "/hooks/{name}",
        "What another program sends becomes a message: docs/webhooks.md",
        "application/json",
        true,
    ),
];

/// Methods that are for a connection that stays.
const OF_CONNECTIONS: [&str; 4] = [Connect::NAME, OwnerHandover::NAME, EventsSubscribe::NAME, EventsUnsubscribe::NAME];

/// The description of the whole API.
fn openapi() -> Value {
    let mut made = Description { protocol: schema(), paths: Map::new(), message: Value::Null };
    made.add_methods();
    made.add_resources();
    made.add_events();
    made.add_others();
    let Description { protocol, paths, message } = made;
    let mut schemas = protocol["$defs"].as_object().expect("an object").clone();
    schemas.extend([("Message".to_owned(), message), ("Problem".to_owned(), problem())]);
    let whole = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Limulus",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "What `limulus serve` answers over HTTP. Generated from the list of methods; docs/http.md explains it.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "http://127.0.0.1:18789" }],
        "security": [{ "token": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "token": { "type": "http", "scheme": "bearer", "description": "`limulus gateway token` prints it" },
            },
            "schemas": schemas,
        },
    });
    let text = whole.to_string().replace("#/$defs/", "#/components/schemas/");
    serde_json::from_str(&text).expect("it was JSON")
}

/// The description while it is made.
struct Description {
    protocol: Value,
    paths: Map<String, Value>,
    /// What `POST /v1/runs` takes.
    message: Value,
}

impl Description {
    fn add(&mut self, path: &str, verb: &str, operation: Value) {
        self.paths.entry(path).or_insert_with(|| json!({}))[verb] = operation;
    }

    /// Each method as `POST /v1/rpc/METHOD`.
    fn add_methods(&mut self) {
        for spec in METHODS.iter().filter(|spec| !OF_CONNECTIONS.contains(&spec.name)) {
            let method = self.protocol["methods"][spec.name].clone();
            let id = format!("rpc.{}", spec.name);
            let operation = operation((&id, spec.about.trim(), spec.scope.name()), "200", &method["result"]);
            let mut operation = with_body(operation, &method["params"]);
            // An empty body is an empty object.
            let required = &definition(&self.protocol, &method["params"])["required"];
            operation["requestBody"]["required"] = required.as_array().is_some_and(|all| !all.is_empty()).into();
            self.add(&format!("/v1/rpc/{}", spec.name), "post", operation);
        }
    }

    fn add_resources(&mut self) {
        for (verb, path, name, in_path) in RESOURCES {
            let method = self.protocol["methods"][name].clone();
            let (about, scope) =
                (method["about"].as_str().expect("a text"), method["scope"].as_str().expect("a scope"));
            let status = if verb == "post" { "202" } else { "200" };
            let mut made = operation((&id(verb, path), about, scope), status, &method["result"]);
            let params = definition(&self.protocol, &method["params"]);
            if verb == "post" {
                // Its key may be a header, and the session has a name without one.
                self.message = params;
                self.message["required"] = json!(["message"]);
                made["parameters"] = json!([header("Idempotency-Key", "The idempotency key of the message")]);
                made = with_body(made, &json!({ "$ref": "#/$defs/Message" }));
            } else {
                made["parameters"] = parameters(&params, in_path);
            }
            self.add(path, verb, made);
        }
    }

    fn add_events(&mut self) {
        for (path, about) in EVENTS {
            let mut made = operation((&id("get", path), about, "read"), "200", &Value::Null);
            made["responses"]["200"]["content"] = json!({ "text/event-stream": { "schema": { "type": "string" } } });
            let mut parameters = vec![
                header("Last-Event-ID", "The cursor behind which it goes on"),
                query("from", "The same, as a parameter", &json!({ "type": "string" })),
                query("whole", "Whether it begins with the first line", &json!({ "type": "boolean" })),
            ];
            parameters.extend(path.contains("{id}").then(|| of_path("id")));
            made["parameters"] = parameters.into();
            self.add(path, "get", made);
        }
    }

    fn add_others(&mut self) {
        for (verb, path, about, kind, is_open) in OTHERS {
            let scope = if verb == "post" { "write" } else { "read" };
            let status = if path.starts_with("/hooks/") { "202" } else { "200" };
            let mut made = operation((&id(verb, path), about, scope), status, &Value::Null);
            let of = if kind == "application/json" { "object" } else { "string" };
            made["responses"][status]["content"] = json!({ kind: { "schema": { "type": of } } });
            if is_open {
                made["security"] = json!([]);
            }
            if path.contains("{name}") {
                made["parameters"] = json!([of_path("name")]);
            }
            if verb == "post" {
                made = with_body(made, &json!({ "type": "object" }));
            }
            self.add(path, verb, made);
        }
    }
}

/// The id of an operation.
fn id(verb: &str, path: &str) -> String {
    format!("{verb}{}", path.replace(['/', '{', '}'], "."))
}

/// The definition that a schema refers to.
fn definition(protocol: &Value, schema: &Value) -> Value {
    let name = schema["$ref"].as_str().and_then(|name| name.strip_prefix("#/$defs/"));
    name.map_or_else(|| schema.clone(), |name| protocol["$defs"][name].clone())
}

fn operation((id, about, scope): (&str, &str, &str), status: &str, result: &Value) -> Value {
    let problem = json!({
        "description": "Why there is no result",
        "content": { "application/json": { "schema": { "$ref": "#/$defs/Problem" } } },
    });
    json!({
        "operationId": id.trim_end_matches('.').replace("..", "."),
        "summary": about,
        "description": format!("Needs the scope `{scope}`."),
        "responses": {
            status: { "description": "The result", "content": { "application/json": { "schema": result } } },
            "4XX": problem,
            "5XX": problem,
        },
    })
}

fn with_body(mut operation: Value, schema: &Value) -> Value {
    operation["requestBody"] = json!({ "required": true, "content": { "application/json": { "schema": schema } } });
    operation
}

/// The parameters of a method as those of a query and of a path.
fn parameters(params: &Value, in_path: Option<&str>) -> Value {
    let none = Map::new();
    let properties = params["properties"].as_object().unwrap_or(&none);
    let in_query = properties.iter().filter(|(name, _)| Some(name.as_str()) != in_path);
    let mut all: Vec<_> = in_query
        .map(|(name, schema)| {
            let mut schema = schema.clone();
            let about = schema["description"].take();
            // What a query lacks it lacks; nothing of it is null.
            if let Some(kinds) = schema["type"].as_array() {
                schema["type"] = kinds.iter().find(|kind| *kind != "null").cloned().unwrap_or_default();
            }
            let schema = schema.as_object().expect("an object").iter().filter(|(_, value)| !value.is_null());
            let schema = schema.map(|(key, value)| (key.clone(), value.clone())).collect::<Map<_, _>>();
            query(name, about.as_str().unwrap_or_default(), &Value::Object(schema))
        })
        .collect();
    all.extend(in_path.map(|_| of_path("id")));
    all.into()
}

fn query(name: &str, about: &str, schema: &Value) -> Value {
    json!({ "name": name, "in": "query", "description": about, "schema": schema })
}

fn header(name: &str, about: &str) -> Value {
    json!({ "name": name, "in": "header", "description": about, "schema": { "type": "string" } })
}

fn of_path(name: &str) -> Value {
    json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string", "minLength": 1 } })
}

fn problem() -> Value {
    let text = |about: &str| json!({ "type": "string", "description": about });
    json!({
        "type": "object",
        "description": "Why a request has no result, in the shape that SDKs of the API of OpenAI read.",
        "required": ["error"],
        "properties": { "error": {
            "type": "object",
            "required": ["message", "type", "code"],
            "properties": {
                "message": text("What is wrong, for people."),
                "type": text("`invalid_request_error` or `api_error`."),
                "code": text("A word for programs."),
                "hint": text("What to do."),
                "param": { "type": ["string", "null"] },
            },
        } },
    })
}

/// R60: `UPDATE=1` writes the file.
#[test]
fn r60_the_api_is_described_from_the_list_of_methods() {
    let file: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let made = serde_json::to_string_pretty(&openapi()).unwrap() + "\n";
    if env::var_os("UPDATE").is_some() {
        fs::write(&file, &made).unwrap();
    }
    assert_eq!(fs::read_to_string(&file).unwrap_or_default(), made, "UPDATE=1 regenerates it");
}

/// R60: what the router serves is described, and nothing else.
#[test]
fn r60_every_route_is_described() {
    let routes = include_str!("mod.rs").split(".route(\"").skip(1).filter_map(|rest| rest.split('"').next());
    let routes: BTreeSet<String> = routes.map(|route| route.replace("{*", "{")).collect();
    let described = openapi();
    let described = described["paths"].as_object().unwrap().keys().map(|path| match path.strip_prefix("/v1/rpc/") {
        Some(_) => "/v1/rpc/{method}".to_owned(),
        None => path.clone(),
    });
    let described: BTreeSet<String> = described.chain(["/", "/ws"].map(str::to_owned)).collect();
    assert_eq!(routes, described);
}
