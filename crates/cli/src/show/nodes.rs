//! The nodes of the loop (R06) and the edges between them, derived from the transition table. A run that waits
//! (awaiting, paused, retry) stays in the node that it waits in: an edge into a wait leads back to its node, and an edge
//! out of one starts there.

use engine::tables::transitions::{Edge, INNER_STEPS, LIVE, RunState, To, Trigger, drawn};
use protocol::show::{Node, TraceLine};

use super::graph::{Graph, Kind, Leads, Other, PathStep, StateNode, TableEdge, edge_of, inside};

/// The nodes that a state represents, in the order in which a run is in them.
pub(super) fn of(state: RunState) -> &'static [&'static str] {
    match state {
        RunState::Preparing => &["prepare", "call_model"],
        RunState::Streaming => &["process_stream"],
        RunState::ToolExec => &["execute_tools"],
        RunState::Compacting => &["compact"],
        RunState::Error => &["error"],
        RunState::Completed => &["end"],
        RunState::Idle | RunState::Retry | RunState::Awaiting | RunState::Paused => &[],
    }
}

impl Graph {
    /// The nodes, and the edges of the table between them.
    pub(crate) fn of_nodes() -> Self {
        let node = |name: &'static str| {
            let states = RunState::ALL.iter().filter(|state| of(**state).contains(&name));
            StateNode {
                name,
                live: live().contains(&name),
                other: Other::States(states.map(|state| state.name()).collect()),
            }
        };
        let states = all(RunState::ALL.iter().copied()).into_iter().map(node).collect();
        Self { kind: Kind::Nodes, states, edges: edges(), run: None }
    }
}

fn edges() -> Vec<TableEdge> {
    let inner = INNER_STEPS.iter().map(|step| TableEdge {
        from: vec![step.from],
        trigger: step.event,
        leads: Leads::States,
        to: vec![step.to],
        node: None,
        note: step.note,
    });
    let mut edges: Vec<TableEdge> = inner.collect();
    for edge in drawn() {
        let sources = sources(edge);
        if sources == live() && !is_mixed(edge) {
            add(&mut edges, from_all(edge, sources));
        } else {
            for from in sources {
                add(&mut edges, from_one(edge, from));
            }
        }
    }
    edges
}

/// Adds an edge without the targets to which an earlier edge of the same trigger leads.
fn add(edges: &mut Vec<TableEdge>, mut edge: TableEdge) {
    for known in edges.iter().filter(|known| known.trigger == edge.trigger && known.leads == edge.leads) {
        if edge.from.iter().all(|from| known.from.contains(from)) {
            edge.to.retain(|to| !known.to.contains(to));
        }
    }
    if !edge.to.is_empty() {
        edges.push(edge);
    }
}

/// The nodes in which a run can take this edge.
fn sources(edge: &Edge) -> Vec<&'static str> {
    let mut sources = vec![];
    for state in edge.from {
        let nodes = if is_wait(*state) { waiting(*state, edge) } else { own(edge, *state) };
        sources.extend(nodes);
    }
    dedup(sources)
}

/// The nodes of a state that this edge leaves.
fn own(edge: &Edge, state: RunState) -> Vec<&'static str> {
    let leaves = |node: &&&str| edge.leaves.is_none_or(|only| only == **node);
    of(state).iter().filter(leaves).copied().collect()
}

/// The nodes in which a run waits that takes this edge out of a wait: those in which the wait began that the edge ends,
/// else those that have the same trigger without a wait.
fn waiting(wait: RunState, edge: &Edge) -> Vec<&'static str> {
    let begins = |one: &&Edge| match edge.ends {
        Some(trigger) => one.trigger == trigger && matches!(one.to, To::States(to) if to.contains(&wait)),
        None => one.trigger == edge.trigger,
    };
    let nodes = drawn().filter(begins).flat_map(|one| one.from.iter().flat_map(|state| own(one, *state)));
    nodes.filter(|node| edge.leaves.is_none_or(|only| only == *node)).collect()
}

/// Whether the target is a node for one source and a wait in the same node for another one.
fn is_mixed(edge: &Edge) -> bool {
    matches!(edge.to, To::States(to) if to.iter().any(|state| is_wait(*state)) && !to.iter().all(|state| is_wait(*state)))
}

/// The edge from every live node.
fn from_all(edge: &Edge, from: Vec<&'static str>) -> TableEdge {
    let (leads, to) = match edge.to {
        To::States(states) if states.iter().all(|state| is_wait(*state)) => (Leads::Same, from.clone()),
        To::States(states) => (Leads::States, states.iter().filter_map(|state| enters(*state)).collect()),
        To::Same => (Leads::Same, from.clone()),
        To::Inside => (Leads::Inside, all(inside())),
    };
    TableEdge { from, trigger: edge.trigger.name(), leads, to, node: None, note: edge.note }
}

/// The edge from this node.
fn from_one(edge: &Edge, from: &'static str) -> TableEdge {
    let (leads, to) = match edge.to {
        To::States(states) => {
            (Leads::States, dedup(states.iter().map(|state| enters(*state).unwrap_or(from)).collect()))
        }
        To::Same => (Leads::Same, vec![from]),
        To::Inside => (Leads::Inside, all(inside())),
    };
    TableEdge { from: vec![from], trigger: edge.trigger.name(), leads, to, node: None, note: edge.note }
}

/// The node that a run enters with this state; none = it waits in the node that it is in.
fn enters(state: RunState) -> Option<&'static str> {
    of(state).first().copied()
}

/// Whether a run in this state waits in a node. Before its start a run is in no node.
fn is_wait(state: RunState) -> bool {
    of(state).is_empty() && state != RunState::Idle
}

fn live() -> Vec<&'static str> {
    all(LIVE.iter().copied())
}

fn all(states: impl IntoIterator<Item = RunState>) -> Vec<&'static str> {
    states.into_iter().flat_map(|state| of(state).iter().copied()).collect()
}

fn dedup(names: Vec<&'static str>) -> Vec<&'static str> {
    let mut first: Vec<&str> = vec![];
    for name in names {
        if !first.contains(&name) {
            first.push(name);
        }
    }
    first
}

/// The path of a run through the nodes, and the node that it is in.
pub(super) fn path(lines: &[TraceLine]) -> (Option<Node>, Vec<PathStep>) {
    let (mut here, mut path) = (None, vec![]);
    // The node that a run was in before it needed a human.
    let mut before = None;
    for line in lines {
        if line.trigger == Some(Trigger::Escalated) {
            before = here;
        }
        let is_back = line.trigger == Some(Trigger::Recovered);
        let next: Option<Node> = line.node.or_else(|| before.filter(|_| is_back)).or(here);
        if let (Some(from), Some(to)) = (here, next)
            && let Some(trigger) = edge_of(line).or_else(|| (from != to).then_some(line.event.as_str()))
        {
            let (seq, at, category, trigger) = (line.seq, line.at, line.category, trigger.to_owned());
            path.push(PathStep { seq, at, from: from.name(), trigger, to: to.name(), node: Some(to), category });
        }
        here = next;
    }
    (here, path)
}

#[cfg(test)]
mod tests {
    use engine::tables::transitions::allowed;
    use engine::{Command, Failure, FailureClass};
    use protocol::method::RunParams;
    use views::scene::Scene;
    use views::{lookup, texts, trace};

    use super::*;
    use crate::show::{dot, json, mermaid, svg, xstate};

    /// Whether an edge of this drawing leads from here to there.
    fn leads(graph: &Graph, from: &str, to: &str) -> bool {
        let is_target = |edge: &TableEdge| match edge.leads {
            Leads::Same => from == to,
            Leads::States | Leads::Inside => edge.to.contains(&to),
        };
        graph.edges.iter().any(|edge| edge.from.contains(&from) && is_target(edge))
    }

    /// The states in which a run is in this node, with those in which it waits there.
    fn states(node: &str) -> Vec<RunState> {
        RunState::ALL.iter().copied().filter(|state| of(*state).contains(&node) || is_wait(*state)).collect()
    }

    #[test]
    fn r06_the_seven_nodes_and_the_edges_between_them_are_drawn() {
        let graph = Graph::of_nodes();
        let names: Vec<&str> = graph.states.iter().map(|node| node.name).collect();
        assert_eq!(names, ["prepare", "call_model", "process_stream", "execute_tools", "compact", "error", "end"]);
        let targets = |from: &str| -> Vec<&str> {
            names.iter().copied().filter(|to| *to != from && leads(&graph, from, to)).collect()
        };
        // `resume` leads to any phase that can be paused.
        let direct = |from: &str| -> Vec<&str> {
            let edges = graph.edges.iter().filter(|edge| edge.leads == Leads::States && edge.from.contains(&from));
            let to: Vec<&str> = edges.flat_map(|edge| edge.to.iter().copied()).collect();
            names.iter().copied().filter(|name| *name != from && to.contains(name)).collect()
        };
        assert_eq!(direct("prepare"), ["call_model", "compact", "error", "end"]);
        assert_eq!(direct("call_model"), ["prepare", "process_stream", "compact", "error", "end"]);
        assert_eq!(direct("process_stream"), ["prepare", "execute_tools", "compact", "error", "end"]);
        assert_eq!(direct("execute_tools"), ["prepare", "error", "end"]);
        assert_eq!(direct("compact"), ["prepare", "error", "end"]);
        assert_eq!(direct("error"), ["prepare", "end"]);
        assert_eq!(targets("end"), [""; 0]);
    }

    #[test]
    fn r06_every_edge_between_nodes_is_an_edge_of_the_table_or_a_step_inside_a_state() {
        let graph = Graph::of_nodes();
        for edge in &graph.edges {
            if INNER_STEPS.iter().any(|step| step.event == edge.trigger) {
                continue;
            }
            let trigger = Trigger::ALL.iter().find(|trigger| trigger.name() == edge.trigger).unwrap();
            for from in &edge.from {
                let to = if edge.leads == Leads::Same { vec![*from] } else { edge.to.clone() };
                for to in to {
                    let (from, to) = (states(from), states(to));
                    let is_allowed = |from: &RunState| to.iter().any(|to| allowed(*from, *trigger, *to));
                    assert!(from.iter().any(is_allowed), "{edge:?}");
                }
            }
        }
        for edge in drawn().filter(|edge| edge.trigger != Trigger::UserInput) {
            assert!(graph.edges.iter().any(|one| one.trigger == edge.trigger.name()), "{edge:?}");
        }
    }

    #[test]
    fn r06_both_nodes_of_a_state_are_of_that_state_and_a_step_between_them_takes_no_edge() {
        for step in INNER_STEPS {
            let state = RunState::ALL.iter().find(|state| of(**state).contains(&step.from)).unwrap();
            assert!(of(*state).contains(&step.to), "{step:?}");
            assert!(Trigger::ALL.iter().all(|trigger| trigger.name() != step.event), "{step:?}");
        }
    }

    fn graph_of(scene: &Scene) -> Graph {
        let found = lookup::run(&scene.journal, &RunParams::default()).unwrap();
        Graph::of_nodes().with_run(found.run, &trace(&scene.journal, &found, &texts(&scene.journal)).unwrap())
    }

    /// The steps of the run, each of which must be an edge of the drawing.
    fn steps(graph: &Graph) -> Vec<(&str, &str, &str)> {
        let run = graph.run.as_ref().unwrap();
        for step in &run.path {
            let is_drawn = graph.edges.iter().any(|edge| {
                let leads = if edge.leads == Leads::Same { step.from == step.to } else { edge.to.contains(&step.to) };
                edge.trigger == step.trigger && edge.from.contains(&step.from) && leads
            });
            assert!(is_drawn, "{step:?}");
        }
        run.path.iter().map(|step| (step.from, step.trigger.as_str(), step.to)).collect()
    }

    #[test]
    fn r06_a_run_that_waits_for_approval_stays_in_its_node_and_is_marked_in_every_format() {
        let mut scene = Scene::new();
        scene.start("list it");
        scene.call("ls", "{}");
        scene.end_stream();
        scene.allow_and_start();
        scene.settle("a.txt");
        scene.call("exec", "{}");
        scene.end_stream();
        scene.ask("may it?");
        let graph = graph_of(&scene);
        let round = |from| {
            [
                (from, "request_sent", "call_model"),
                ("call_model", "model_started", "process_stream"),
                ("process_stream", "tool_call", "execute_tools"),
            ]
        };
        let mut expected = round("prepare").to_vec();
        expected.push(("execute_tools", "tool_result", "prepare"));
        expected.extend(round("prepare"));
        expected.push(("execute_tools", "approval_requested", "execute_tools"));
        assert_eq!(steps(&graph), expected);
        let run = graph.run.as_ref().unwrap();
        assert_eq!((run.state, run.node), (RunState::Awaiting, Some(Node::ExecuteTools)));
        let drawing = mermaid::draw(&graph);
        assert!(drawing.contains("    call_model --> process_stream: model_started ×2\n"), "{drawing}");
        assert!(drawing.contains("    class execute_tools here\n"), "{drawing}");
        assert!(drawing.contains("    class call_model seen\n"), "{drawing}");
        let dot = dot::draw(&graph);
        assert!(dot.contains("execute_tools [label=\"execute_tools\\n(tool_exec)\", fillcolor=\"#f4c95d\""), "{dot}");
        assert!(dot.contains("prepare -> call_model [label=\"request_sent ×2\", color="), "{dot}");
        let svg = svg::draw(&graph);
        assert_eq!((svg.matches("box here").count(), svg.matches("box seen").count()), (1, 3), "{svg}");
        assert!(svg.contains(">request_sent ×2</text>") && svg.contains("The nodes of a run"), "{svg}");
        let machine = xstate::machine(&graph);
        assert_eq!(machine["states"]["execute_tools"]["tags"], serde_json::json!(["live", "here"]));
        assert_eq!(machine["states"]["prepare"]["tags"], serde_json::json!(["live", "seen"]));
        let printed: serde_json::Value = serde_json::from_str(&json(&graph)).unwrap();
        assert_eq!(printed["nodes"].as_array().map(Vec::len), Some(7));
        assert_eq!(printed["run"]["node"], "execute_tools");
        assert_eq!(printed["run"]["path"].as_array().map(Vec::len), Some(expected.len()));
    }

    #[test]
    fn r06_retries_crashes_and_pauses_take_only_edges_that_are_drawn() {
        let mut scene = Scene::new();
        scene.start("list it");
        scene.crash();
        scene.stream("One");
        scene.crash();
        scene.fail(Failure::new(FailureClass::Network, "gone"));
        let steps_of = |scene: &Scene| -> Vec<(String, String, String)> {
            let graph = graph_of(scene);
            let owned = |(from, by, to): (&str, &str, &str)| (from.to_owned(), by.to_owned(), to.to_owned());
            steps(&graph).into_iter().map(owned).collect()
        };
        let waiting = steps_of(&scene);
        let last = |(from, by, to): (&str, &str, &str)| Some((from.to_owned(), by.to_owned(), to.to_owned()));
        assert_eq!(waiting.last().cloned(), last(("error", "retryable", "error")));
        scene.offer(Command::Pause { run: None, freeze: false });
        assert_eq!(steps_of(&scene).last().cloned(), last(("error", "pause", "error")));
        scene.offer(Command::Resume { run: None, drop: false });
        assert_eq!(steps_of(&scene).last().cloned(), last(("error", "resume", "error")));
    }
}
