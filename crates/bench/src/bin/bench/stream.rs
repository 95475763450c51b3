//! W3: one reply of 20,000 tokens without any delay, as a subscriber of the runtime sees it, and as the adapter alone
//! returns it. Then whether twice as long arguments of a call cost twice as much.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use engine::{Candidate, Event, Part};
use futures_util::StreamExt as _;
use models::{Api, Cached, Endpoint, Message, Model as _, ModelEvent, ModelSet, Request};

use super::Problem;
use super::table::{Line, Row, Samples, Target};
use super::warm::{Server, Warm, cpu_seconds, message, tokio};

/// Tokens of the reply, each in a separate frame.
const TOKENS: u32 = 20_000;
/// Replies that are measured; the first is not counted.
const TIMES: usize = 7;
/// Bytes of the arguments that are compared, in pieces of 16.
const SHORT: usize = 64 << 10;
const LONG: usize = 512 << 10;

/// Measures; it creates a home in this folder, which must be on a disk.
pub(super) fn measure(folder: &Path) -> Result<Vec<Line>, Problem> {
    let server = Server::start()?;
    tokio()?.block_on(async {
        let mut warm = Warm::new(folder, &server.base_url, 1)?;
        let text = format!("tokens={TOKENS}");
        let (mut received, mut cpu, mut alone) = (vec![], vec![], vec![]);
        for time in 0..=TIMES {
            let before = cpu_seconds();
            let rate = f64::from(TOKENS) / seconds_to_subscriber(&mut warm, &text).await?;
            let spent = (cpu_seconds() - before) * 1e6 / f64::from(TOKENS);
            let rate_alone = f64::from(TOKENS) / seconds_alone(&server.base_url, &text).await?;
            if time > 0 {
                received.push(rate);
                cpu.push(spent);
                alone.push(rate_alone);
            }
        }
        let mut growth = vec![];
        for _ in 0..TIMES {
            let mut each = [0.0; 2];
            for (each, bytes) in each.iter_mut().zip([SHORT, LONG]) {
                *each = argument_cpu(&mut warm, bytes).await? / bytes as f64;
            }
            growth.push(each[1] / each[0]);
        }
        warm.runtime.shutdown().await?;
        let row = |what, target, measured| Line::from(Row { what, target, measured });
        Ok(vec![
            row(
                "W3: a reply of 20,000 tokens, from its first to its end, as a subscriber receives it",
                Target::AtLeast(100_000.0),
                Samples::new("tokens/s", received),
            ),
            row("W3: the same: CPU a token", Target::None, Samples::new("µs", cpu)),
            row("W3: the same from the adapter alone", Target::None, Samples::new("tokens/s", alone)),
            row(
                "arguments of a call, 512 KiB to 64 KiB in pieces of 16 B: CPU a byte",
                Target::AtMost(1.5),
                Samples::new("×", growth),
            ),
        ])
    })
}

/// From the first piece of text that the subscriber receives to the end of the run.
async fn seconds_to_subscriber(warm: &mut Warm, text: &str) -> Result<f64, Problem> {
    let key = warm.next_key();
    warm.runtime.open(&key, "main", vec![message(text)]).await?;
    let mut first = None;
    loop {
        let published = warm.published.recv().await.ok_or("the runtime has stopped")?;
        for record in &published.batch.records {
            match &record.event {
                Event::TextAdded(_) => _ = first.get_or_insert_with(Instant::now),
                Event::RunEnded(_) => {
                    let first = first.ok_or("a reply without text")?;
                    return Ok(first.elapsed().as_secs_f64());
                }
                _ => {}
            }
        }
    }
}

/// From the first piece of text that the adapter returns to the end of the answer.
async fn seconds_alone(base_url: &str, text: &str) -> Result<f64, Problem> {
    let request = Request {
        candidate: Candidate {
            provider: "scripted".into(),
            model: "wire".into(),
            profile: None,
            context_window: 200_000,
            max_output: 100_000,
            thinking: None,
            images: true,
            structured_output: false,
            sampling: engine::Sampling::default(),
            token_rate: 1_000,
            can_refresh: false,
            levels: vec![],
            price: None,
        },
        system: Cached::from(Arc::from("")),
        messages: vec![Cached::from(Message::user(text.to_owned()))],
        tools: Cached::from(vec![]),
        endpoint: Endpoint::new(Api::OpenAiChat, base_url.to_owned(), None),
        continues: false,
        cache_key: None,
        output_schema: None,
    };
    let models = ModelSet::new();
    let mut stream = models.stream(request);
    let mut first = None;
    while let Some(event) = stream.next().await {
        match event.map_err(|failure| failure.to_string())? {
            ModelEvent::Part(Part::Text(_)) => _ = first.get_or_insert_with(Instant::now),
            ModelEvent::Ended { .. } => break,
            ModelEvent::Opened | ModelEvent::Part(_) => {}
        }
    }
    Ok(first.ok_or("a reply without text")?.elapsed().as_secs_f64())
}

/// The cost of a run with such a call, seconds of CPU.
async fn argument_cpu(warm: &mut Warm, bytes: usize) -> Result<f64, Problem> {
    let before = cpu_seconds();
    warm.run(1, &format!("write={bytes} tokens=1")).await?;
    Ok(cpu_seconds() - before)
}
