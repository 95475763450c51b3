//! What a model that sees no images is told in their place. One line stands for an image, so a conversation in which one was
//! shown to another model can go on with this one. What may not live here: what an API takes.

use std::sync::Arc;

use crate::model::{Answer, Block, File, Held, Message, Request};
use crate::rendering::Cached;

/// The same request without what its model cannot see.
pub(crate) fn without_images(mut request: Request) -> Request {
    if !request.candidate.images {
        for message in request.messages.iter_mut().filter(|message| shows(message)) {
            *message = Cached::from(told(message));
        }
    }
    request
}

fn shows(message: &Message) -> bool {
    match message {
        Message::User { files, .. } | Message::Result { files, .. } => files.iter().any(is_image),
        Message::Assistant(answer) => answer.blocks.iter().any(|block| matches!(block.held, Held::Image(_))),
    }
}

fn is_image(file: &File) -> bool {
    file.media_type.starts_with("image/")
}

fn told(message: &Message) -> Message {
    match message {
        Message::User { text, files } => {
            let (text, files) = parted(text, files);
            Message::User { text, files }
        }
        Message::Result { provider_id, tool, text, is_error, files } => {
            let (text, files) = parted(text, files);
            let (provider_id, tool) = (Arc::clone(provider_id), Arc::clone(tool));
            Message::Result { provider_id, tool, text, is_error: *is_error, files }
        }
        Message::Assistant(answer) => {
            let told = |block: &Block| match &block.held {
                Held::Image(file) => Block { held: Held::Text(line(file).into()), signature: None },
                Held::Text(_) | Held::Reasoning(_) | Held::Call(_) => block.clone(),
            };
            Message::Assistant(Answer {
                model: Arc::clone(&answer.model),
                blocks: answer.blocks.iter().map(told).collect(),
            })
        }
    }
}

/// The text with a line for each image, and the other files.
fn parted(text: &str, files: &[File]) -> (Arc<str>, Vec<File>) {
    let (images, others): (Vec<_>, Vec<_>) = files.iter().cloned().partition(is_image);
    let lines: Vec<String> = std::iter::once(text.trim_end().to_owned()).chain(images.iter().map(line)).collect();
    (lines.join("\n").into(), others)
}

fn line(file: &File) -> String {
    format!("[an image that you cannot see: {}, {}, {} bytes]", file.name, file.media_type, file.bytes.len())
}

#[cfg(test)]
mod tests {
    use engine::Candidate;

    use super::*;
    use crate::endpoint::{Api, Endpoint};
    use crate::model_set::ModelSet;

    fn file(media_type: &str, name: &str) -> File {
        File { media_type: media_type.into(), name: name.into(), bytes: b"1234".as_slice().into() }
    }

    #[test]
    fn r41_a_model_that_sees_no_images_is_told_of_them_in_every_format() {
        let image = Held::Image(file("image/png", "made.png"));
        let made = Answer { model: "".into(), blocks: vec![Block { held: image, signature: None }] };
        let shown = vec![file("image/png", "shown.png"), file("text/plain", "a.txt")];
        let messages =
            [Message::User { text: "look".into(), files: shown }, Message::Assistant(made), Message::user("and?")];
        let messages: Vec<_> = messages.into_iter().map(Cached::from).collect();
        for (api, name) in &Api::ALL[1..] {
            let request = |images| Request {
                candidate: Candidate {
                    provider: "acme".to_owned(),
                    model: "m".to_owned(),
                    profile: None,
                    context_window: 1_000,
                    max_output: 100,
                    thinking: None,
                    images,
                },
                system: Cached::from(Arc::from("")),
                messages: messages.clone(),
                tools: Cached::from(vec![]),
                endpoint: Endpoint::new(*api, String::new(), None),
            };
            let body = |images| String::from_utf8(ModelSet::body(&request(images))).unwrap();
            assert!(body(true).contains("MTIzNA=="), "{name}");
            let told = body(false);
            assert!(!told.contains("MTIzNA==") && told.contains("<file name=\\\"a.txt\\\">"), "{name}: {told}");
            for line in ["look\\n[an image that you cannot see: shown.png, image/png, 4 bytes]", "made.png, image/png"]
            {
                assert!(told.contains(line), "{name}: {told}");
            }
        }
    }
}
