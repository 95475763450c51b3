//! The graph as the configuration of an XState v5 machine, as `createMachine` takes it. An edge that may lead to
//! several states is a list with a guard for each, because the run decides at run time.

use serde_json::{Map, Value, json};

use super::graph::{Graph, Leads, Mark, TableEdge};

/// The machine. Tags on states mark a run; its path is in the `meta` of the machine.
pub(crate) fn machine(graph: &Graph) -> Value {
    let (first, last) = graph.kind.ends();
    let states = graph.states.iter().map(|node| {
        let mut state = Map::new();
        let tags: Vec<&str> = tags(graph, node.name, node.live);
        state.insert("tags".to_owned(), json!(tags));
        state.insert("meta".to_owned(), json!(node.other));
        if node.name == last {
            state.insert("type".to_owned(), json!("final"));
        } else {
            state.insert("on".to_owned(), Value::Object(transitions(graph, node.name)));
        }
        (node.name.to_owned(), Value::Object(state))
    });
    let states: Map<String, Value> = states.collect();
    let mut machine = json!({"id": "limulus", "initial": first, "states": states});
    if let (Some(run), Some(machine)) = (&graph.run, machine.as_object_mut()) {
        machine.insert("meta".to_owned(), json!({"run": run}));
    }
    machine
}

fn tags(graph: &Graph, state: &str, is_live: bool) -> Vec<&'static str> {
    let mark = match graph.mark(state) {
        Mark::Here => Some("here"),
        Mark::Seen => Some("seen"),
        Mark::None => None,
    };
    is_live.then_some("live").into_iter().chain(mark).collect()
}

/// The transitions of a state, by trigger.
fn transitions(graph: &Graph, from: &'static str) -> Map<String, Value> {
    let mut on: Map<String, Value> = Map::new();
    for trigger in graph.triggers() {
        let edges = graph.edges.iter().filter(|edge| edge.trigger == trigger && edge.from.contains(&from));
        let targets: Vec<(&'static str, &TableEdge)> = edges.flat_map(|edge| targets(edge, from)).collect();
        let all: Vec<Value> = targets.iter().map(|(to, edge)| transition(to, edge, targets.len() > 1)).collect();
        match <[Value; 1]>::try_from(all) {
            Ok([one]) => drop(on.insert(trigger.to_owned(), one)),
            Err(all) if all.is_empty() => {}
            Err(all) => drop(on.insert(trigger.to_owned(), Value::Array(all))),
        }
    }
    on
}

fn targets<'a>(edge: &'a TableEdge, from: &'static str) -> Vec<(&'static str, &'a TableEdge)> {
    match edge.leads {
        Leads::States | Leads::Inside => edge.to.iter().map(|to| (*to, edge)).collect(),
        Leads::Same => vec![(from, edge)],
    }
}

fn transition(to: &str, edge: &TableEdge, is_one_of_several: bool) -> Value {
    let mut transition = json!({"target": to});
    let object = transition.as_object_mut().expect("it was made as one");
    if is_one_of_several {
        object.insert("guard".to_owned(), json!(format!("leads_to_{to}")));
    }
    if !edge.note.is_empty() {
        object.insert("description".to_owned(), json!(edge.note));
    }
    if let Some(node) = edge.node {
        object.insert("meta".to_owned(), json!({"node": node}));
    }
    transition
}
