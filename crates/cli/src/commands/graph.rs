//! `limulus graph`: draws the state machine from its table, or with `--nodes` the nodes of the loop; `--run` marks the
//! path of a run.

use clap::{Args, ValueEnum};
use config::Globals;
use protocol::method::RunParams;
use views::{lookup, texts, trace};

use crate::error::CliError;
use crate::show::graph::Graph;
use crate::show::{chain, dot, json, mermaid, open, print, svg, xstate};

/// Draw the state machine of a run from the table that the runtime obeys.
#[derive(Debug, Args)]
pub(crate) struct GraphArgs {
    /// Print it in this format
    #[arg(long, value_enum, default_value_t = Format::Mermaid)]
    format: Format,
    /// Draw the nodes of the agent loop (prepare, call_model, …) instead of the states; a run that waits stays in its node
    #[arg(long)]
    nodes: bool,
    /// Print what is decided before a request and around a call, and what is made of a history, in order, instead of a drawing
    #[arg(long, conflicts_with_all = ["nodes", "run", "session", "format"])]
    chain: bool,
    /// Mark the state of this run (with --nodes its node) and the path that it took: its id, or a unique prefix
    #[arg(long, value_name = "RUN", conflicts_with = "session")]
    run: Option<String>,
    /// Do the same for the active, else last, run of this session
    #[arg(long, value_name = "KEY")]
    session: Option<String>,
    /// Print JSON, as --format json does
    #[arg(long)]
    json: bool,
}

/// The formats of the drawing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A Mermaid stateDiagram-v2
    Mermaid,
    /// The DOT language of Graphviz
    Dot,
    /// A drawing
    Svg,
    /// The configuration of an XState v5 machine, as JSON
    Xstate,
    /// The table, and the path of the run
    Json,
}

pub(crate) fn run(args: GraphArgs, globals: &Globals) -> Result<(), CliError> {
    if args.chain {
        return print(&if args.json { json(&chain::chain()) } else { chain::lay_out() });
    }
    let mut graph = if args.nodes { Graph::of_nodes() } else { Graph::of_table() };
    if args.run.is_some() || args.session.is_some() {
        let reader = open(globals)?;
        let found = lookup::run(&reader, &RunParams { run: args.run, session: args.session })?;
        graph = graph.with_run(found.run, &trace(&reader, &found, &texts(&reader))?);
    }
    let format = if args.json { Format::Json } else { args.format };
    print(&match format {
        Format::Mermaid => mermaid::draw(&graph),
        Format::Dot => dot::draw(&graph),
        Format::Svg => svg::draw(&graph),
        Format::Xstate => json(&xstate::machine(&graph)),
        Format::Json => json(&graph),
    })
}

#[cfg(test)]
mod tests {
    use engine::tables::transitions::{RunState, Trigger, allowed};

    use super::*;
    use crate::show::arrows::{Arrow, arrows};
    use crate::show::graph::Leads;
    use views::scene::Scene;

    /// Whether the table has this edge, and not only reserves it.
    fn can_be_taken(from: RunState, trigger: Trigger, to: RunState) -> bool {
        allowed(from, trigger, to) && trigger.reserved().is_none()
    }

    #[test]
    fn r03_the_drawing_is_made_from_the_table() {
        insta::assert_snapshot!(mermaid::draw(&Graph::of_table()));
    }

    #[test]
    fn r03_json_holds_every_edge_that_can_be_taken_and_no_other() {
        let graph = Graph::of_table();
        let drawn = |from, by, to| {
            graph.edges.iter().any(|edge| {
                let leads = if edge.leads == Leads::Same { from == to } else { edge.to.contains(&to) };
                edge.from.contains(&from) && edge.trigger == by && leads
            })
        };
        for from in RunState::ALL {
            for trigger in Trigger::ALL {
                for to in RunState::ALL {
                    let (is, should) =
                        (drawn(from.name(), trigger.name(), to.name()), can_be_taken(*from, *trigger, *to));
                    assert_eq!(is, should, "{from} {trigger} {to}");
                }
            }
        }
    }

    /// `UPDATE=1` writes it.
    #[test]
    fn r03_the_drawing_in_the_docs_is_made_from_the_table() {
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/graph.svg");
        let drawn = svg::draw(&Graph::of_table());
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&file, &drawn).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&file).unwrap_or_default(), drawn, "UPDATE=1 writes it");
    }

    #[test]
    fn r03_dot_and_svg_have_every_state_and_every_arrow() {
        let graph = Graph::of_table();
        let (dot, svg) = (dot::draw(&graph), svg::draw(&graph));
        let arrows = arrows(&graph);
        assert_eq!(dot.matches(" -> ").count(), arrows.len() + 2);
        assert_eq!(svg.matches(" marker-end=").count(), arrows.len());
        for Arrow { from, to, .. } in &arrows {
            assert!(dot.contains(&format!("    {from} -> {to} [label=")), "{from} {to}");
        }
        for state in RunState::ALL {
            assert!(
                dot.contains(&format!("    {state} [label=\"{state}")) && svg.contains(&format!(">{state}</text>"))
            );
        }
        let (reserved, used): (Vec<Trigger>, Vec<Trigger>) =
            Trigger::ALL.iter().partition(|trigger| trigger.reserved().is_some());
        let is_in = |text: &str, trigger: &Trigger| text.contains(trigger.name());
        let missing: Vec<&Trigger> = used.iter().filter(|one| !is_in(&dot, one) || !is_in(&svg, one)).collect();
        assert_eq!(missing, [&Trigger::UserInput; 0]);
        let drawn: Vec<&Trigger> = reserved.iter().filter(|one| is_in(&dot, one) || is_in(&svg, one)).collect();
        assert_eq!(drawn, [&Trigger::UserInput; 0]);
    }

    #[test]
    fn r03_xstate_allows_every_edge_that_can_be_taken_and_no_other() {
        let machine = xstate::machine(&Graph::of_table());
        let leads = |from: RunState, trigger: Trigger, to: RunState| {
            let on = &machine["states"][from.name()]["on"][trigger.name()];
            let several = on.as_array().cloned().unwrap_or_else(|| vec![on.clone()]);
            assert!(several.len() == 1 || several.iter().all(|one| one["guard"].is_string()), "{from} {trigger}: {on}");
            several.iter().any(|transition| transition["target"] == to.name())
        };
        for from in RunState::ALL {
            for trigger in Trigger::ALL {
                for to in RunState::ALL {
                    let (is, should) = (leads(*from, *trigger, *to), can_be_taken(*from, *trigger, *to));
                    assert_eq!(is, should, "{from} {trigger} {to}");
                }
            }
        }
        assert_eq!((&machine["initial"], &machine["states"]["completed"]["type"]), (&"idle".into(), &"final".into()));
    }

    #[test]
    fn r06_a_run_is_marked_where_it_is_with_the_path_that_it_took() {
        let mut scene = Scene::new();
        scene.start("list it");
        scene.call("ls", "{}");
        scene.end_stream();
        scene.allow_and_start();
        scene.settle("a.txt");
        scene.stream("One");
        let found = lookup::run(&scene.journal, &RunParams::default()).unwrap();
        let lines = trace(&scene.journal, &found, &texts(&scene.journal)).unwrap();
        let graph = Graph::of_table().with_run(found.run, &lines);
        let run = graph.run.as_ref().unwrap();
        assert_eq!((run.state, run.node), (RunState::Streaming, Some(protocol::show::Node::ProcessStream)));
        let nodes: Vec<&str> = run.path.iter().filter_map(|step| step.node.map(protocol::show::Node::name)).collect();
        assert_eq!(nodes, ["prepare", "process_stream", "execute_tools", "prepare", "process_stream"]);
        for step in lines.iter().filter_map(|line| Some((line.from, line.trigger?, line.to))) {
            assert!(allowed(step.0, step.1, step.2), "{step:?}");
        }
        assert!(run.path.iter().all(|step| step.from != step.to), "{:?}", run.path);
        let drawing = mermaid::draw(&graph);
        assert!(drawing.contains("    preparing --> streaming: model_started ×2\n"), "{drawing}");
        assert!(drawing.contains("    class streaming here\n"), "{drawing}");
        assert!(drawing.contains("    class tool_exec seen\n"), "{drawing}");
        let dot = dot::draw(&graph);
        assert!(dot.contains("streaming [label=\"streaming\\n(process_stream)\", fillcolor=\"#f4c95d\""), "{dot}");
        assert!(dot.contains("preparing -> streaming [label=\"model_started ×2\", color="), "{dot}");
        let svg = svg::draw(&graph);
        assert_eq!((svg.matches("box here").count(), svg.matches("box seen").count()), (1, 3), "{svg}");
        assert!(svg.contains(">model_started ×2</text>") && svg.contains("path class=\"taken\""), "{svg}");
        let machine = xstate::machine(&graph);
        assert_eq!(machine["states"]["streaming"]["tags"], serde_json::json!(["live", "here"]));
        assert_eq!(machine["states"]["tool_exec"]["tags"], serde_json::json!(["live", "seen"]));
        assert_eq!(machine["meta"]["run"]["path"].as_array().map(Vec::len), Some(run.path.len()));
    }
}
