//! `limulus graph`: the state machine, drawn from the table that it obeys; with `--run`, where a run is in it.

use clap::{Args, ValueEnum};

use crate::config::Globals;
use crate::error::CliError;
use crate::show::graph::Graph;
use crate::show::lookup::RunChoice;
use crate::show::{json, mermaid, open, print, texts, trace};

/// The state machine of a run, drawn from the table that the runtime obeys.
#[derive(Debug, Args)]
pub(crate) struct GraphArgs {
    /// As what it is printed
    #[arg(long, value_enum, default_value_t = Format::Mermaid)]
    format: Format,
    /// Mark where this run is and the path that it took: its id, or as much of its beginning as is unique
    #[arg(long, value_name = "RUN", conflicts_with = "session")]
    run: Option<String>,
    /// As --run, for the active, else last, run of this session
    #[arg(long, value_name = "KEY")]
    session: Option<String>,
    /// The same as --format json
    #[arg(long)]
    json: bool,
}

/// What the graph is printed as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A Mermaid stateDiagram-v2
    Mermaid,
    /// The table, and the path of the run
    Json,
}

/// Prints it.
pub(crate) fn run(args: GraphArgs, globals: &Globals) -> Result<(), CliError> {
    let mut graph = Graph::of_table();
    if args.run.is_some() || args.session.is_some() {
        let reader = open(globals)?;
        let choice = RunChoice { run: args.run, session: args.session };
        let found = choice.find(&reader)?;
        graph = graph.with_run(found.run, &trace::trace(&reader, &found, &texts(&reader))?);
    }
    let as_json = args.json || args.format == Format::Json;
    print(&if as_json { json(&graph) } else { mermaid::draw(&graph) })
}

#[cfg(test)]
mod tests {
    use engine::tables::transitions::{RunState, allowed};

    use super::*;
    use crate::show::graph::Leads;
    use crate::show::scene::Scene;

    #[test]
    fn r03_the_drawing_is_made_from_the_table() {
        insta::assert_snapshot!(mermaid::draw(&Graph::of_table()));
    }

    #[test]
    fn r03_json_holds_every_edge_and_no_other() {
        let graph = Graph::of_table();
        let drawn = |from, trigger, to| {
            graph.edges.iter().any(|edge| {
                let leads = if edge.leads == Leads::Same { from == to } else { edge.to.contains(&to) };
                edge.from.contains(&from) && edge.trigger == trigger && leads
            })
        };
        for from in RunState::ALL {
            for trigger in engine::tables::transitions::Trigger::ALL {
                for to in RunState::ALL {
                    let (is, should) = (drawn(*from, *trigger, *to), allowed(*from, *trigger, *to));
                    assert_eq!(is, should, "{from} {trigger} {to}");
                }
            }
        }
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
        let found = RunChoice::default().find(&scene.journal).unwrap();
        let lines = trace::trace(&scene.journal, &found, &texts(&scene.journal)).unwrap();
        let graph = Graph::of_table().with_run(found.run, &lines);
        let run = graph.run.as_ref().unwrap();
        assert_eq!((run.state, run.node), (RunState::Streaming, Some("process_stream")));
        let nodes: Vec<&str> = run.path.iter().filter_map(|step| step.node).collect();
        assert_eq!(nodes, ["prepare", "process_stream", "execute_tools", "prepare", "process_stream"]);
        for step in &run.path {
            assert!(allowed(step.from, step.trigger, step.to), "{step:?}");
        }
        let drawing = mermaid::draw(&graph);
        assert!(drawing.contains("    preparing --> streaming: model_started ×2\n"), "{drawing}");
        assert!(drawing.contains("    class streaming here\n"), "{drawing}");
        assert!(drawing.contains("    class tool_exec seen\n"), "{drawing}");
    }
}
