//! Replaces images and documents of a request by a line of text each: all images if the model does not accept images,
//! so that it can continue the conversation of another model; and the oldest images and documents if together they are
//! too large for a request.

use std::sync::Arc;

use crate::limits::{FILES_BYTES, FILES_STEP_BYTES};
use crate::model::{AssistantMessage, BlockContent, ContentBlock, File, Message, Request};
use crate::rendering::Cached;

/// Why a file is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    /// The model does not accept images.
    Blind,
    /// It is among the oldest files of a request that is too large.
    Old,
}

/// The same request without the images that its model does not accept, and with at most [`FILES_BYTES`] of files. If
/// the last message with files exceeds this limit alone, it is sent nevertheless.
pub(crate) fn without_images(mut request: Request) -> Request {
    if !request.candidate.images {
        leave_out(&mut request.messages, Why::Blind);
    }
    let sizes: Vec<usize> = request.messages.iter().map(|message| hidden_bytes(message, Why::Old)).collect();
    leave_out(&mut request.messages[..old(&sizes)], Why::Old);
    request
}

fn leave_out(messages: &mut [Cached<Message>], why: Why) {
    for message in messages.iter_mut().filter(|message| hidden_bytes(message, why) > 0) {
        *message = Cached::from(replaced(message, why));
    }
}

/// How many files a request has a line of text for, of messages with files of these types and sizes in bytes.
pub fn files_left_out(messages: &[Vec<(&str, u64)>], sees_images: bool) -> usize {
    let is_blind = |media_type: &str| !sees_images && is_of(media_type, Why::Blind);
    let is_old = |media_type: &str| !is_blind(media_type) && is_of(media_type, Why::Old);
    let bytes = |files: &Vec<(&str, u64)>| -> usize {
        files.iter().filter(|(media_type, _)| is_old(media_type)).map(|(_, bytes)| *bytes as usize).sum()
    };
    let sizes: Vec<usize> = messages.iter().map(bytes).collect();
    let blind = messages.iter().flatten().filter(|(media_type, _)| is_blind(media_type)).count();
    blind + messages[..old(&sizes)].iter().flatten().filter(|(media_type, _)| is_old(media_type)).count()
}

/// The number of messages at the beginning whose files are replaced; `sizes` are the bytes of those of each message. It grows in steps
/// of [`FILES_STEP_BYTES`], so that successive requests have the same beginning. The last message with files is never among them.
fn old(sizes: &[usize]) -> usize {
    let Some(over) = sizes.iter().sum::<usize>().checked_sub(FILES_BYTES).filter(|over| *over > 0) else { return 0 };
    let left_out = over.div_ceil(FILES_STEP_BYTES) * FILES_STEP_BYTES;
    let mut passed = 0;
    let end = sizes.iter().position(|bytes| {
        let is_old = passed < left_out;
        passed += bytes;
        !is_old
    });
    let last = sizes.iter().rposition(|bytes| *bytes > 0);
    end.unwrap_or(sizes.len()).min(last.unwrap_or(0))
}

/// Bytes of the files that would be replaced in a message.
fn hidden_bytes(message: &Message, why: Why) -> usize {
    match message {
        Message::User { files, .. } | Message::Result { files, .. } => {
            files.iter().filter(|file| is_of(&file.media_type, why)).map(|file| file.bytes.len()).sum()
        }
        Message::Assistant(answer) => answer.blocks.iter().map(|block| image_bytes(&block.held)).sum(),
    }
}

fn image_bytes(held: &BlockContent) -> usize {
    match held {
        BlockContent::Image(file) => file.bytes.len(),
        BlockContent::Text(_) | BlockContent::Reasoning(_) | BlockContent::Call(_) => 0,
    }
}

/// Whether a file of this type is replaced; text files never are.
fn is_of(media_type: &str, why: Why) -> bool {
    media_type.starts_with("image/") || why == Why::Old && media_type == "application/pdf"
}

fn replaced(message: &Message, why: Why) -> Message {
    match message {
        Message::User { text, files } => {
            let (text, files) = parted(text, files, why);
            Message::User { text, files }
        }
        Message::Result { provider_id, tool, text, is_error, files } => {
            let (text, files) = parted(text, files, why);
            let (provider_id, tool) = (Arc::clone(provider_id), Arc::clone(tool));
            Message::Result { provider_id, tool, text, is_error: *is_error, files }
        }
        Message::Assistant(answer) => {
            let replace = |block: &ContentBlock| match &block.held {
                BlockContent::Image(file) => {
                    ContentBlock { held: BlockContent::Text(line(file, why).into()), signature: None }
                }
                BlockContent::Text(_) | BlockContent::Reasoning(_) | BlockContent::Call(_) => block.clone(),
            };
            let model = Arc::clone(&answer.model);
            Message::Assistant(AssistantMessage { model, blocks: answer.blocks.iter().map(replace).collect() })
        }
    }
}

/// The text with a line for each replaced file, and the other files.
fn parted(text: &str, files: &[File], why: Why) -> (Arc<str>, Vec<File>) {
    let (hidden, others): (Vec<_>, Vec<_>) = files.iter().cloned().partition(|file| is_of(&file.media_type, why));
    let lines = hidden.iter().map(|file| line(file, why));
    let lines: Vec<String> = std::iter::once(text.trim_end().to_owned()).chain(lines).collect();
    (lines.join("\n").into(), others)
}

fn line(file: &File, why: Why) -> String {
    let what = match why {
        Why::Blind => "an image that you cannot see",
        Why::Old => "shown before, and left out now for want of room",
    };
    format!("[{what}: {}, {}, {} bytes]", file.name, file.media_type, file.bytes.len())
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

    fn request(api: Api, images: bool, messages: Vec<Cached<Message>>) -> Request {
        Request {
            candidate: Candidate {
                provider: "acme".to_owned(),
                model: "m".to_owned(),
                profile: None,
                context_window: 1_000,
                max_output: 100,
                thinking: None,
                images,
                structured_output: false,
                sampling: engine::Sampling::default(),
                token_rate: 1_000,
                can_refresh: false,
                levels: vec![],
                price: None,
            },
            system: Cached::from(Arc::from("")),
            messages,
            tools: Cached::from(vec![]),
            endpoint: Endpoint::new(api, String::new(), None),
            continues: false,
            cache_key: None,
            output_schema: None,
        }
    }

    #[test]
    fn r41_a_model_without_images_gets_a_text_for_each_in_every_format() {
        let image = BlockContent::Image(file("image/png", "made.png"));
        let made = AssistantMessage { model: "".into(), blocks: vec![ContentBlock { held: image, signature: None }] };
        let shown = vec![file("image/png", "shown.png"), file("text/plain", "a.txt")];
        let messages =
            [Message::User { text: "look".into(), files: shown }, Message::Assistant(made), Message::user("and?")];
        let messages: Vec<_> = messages.into_iter().map(Cached::from).collect();
        for (api, name) in &Api::ALL[1..] {
            let request = |images| request(*api, images, messages.clone());
            let body = |images| String::from_utf8(ModelSet::body(&request(images))).unwrap();
            assert!(body(true).contains("MTIzNA=="), "{name}");
            let body = body(false);
            assert!(!body.contains("MTIzNA==") && body.contains("<file name=\\\"a.txt\\\">"), "{name}: {body}");
            for line in ["look\\n[an image that you cannot see: shown.png, image/png, 4 bytes]", "made.png, image/png"]
            {
                assert!(body.contains(line), "{name}: {body}");
            }
        }
    }

    /// This many messages, each with an image of one mebibyte.
    fn conversation(images: usize) -> Vec<Cached<Message>> {
        let shown = |number: usize| {
            let bytes = vec![number as u8; 1 << 20].into();
            File { media_type: "image/png".into(), name: format!("{number}.png").into(), bytes }
        };
        (0..images)
            .map(|number| Cached::from(Message::User { text: "look".into(), files: vec![shown(number)] }))
            .collect()
    }

    /// The names of the images that the request still contains.
    fn shown(images: usize) -> Vec<String> {
        let messages = without_images(request(Api::Gemini, true, conversation(images))).messages;
        let files = |message: &Cached<Message>| match &**message {
            Message::User { files, .. } => files.iter().map(|file| file.name.to_string()).collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        };
        messages.iter().flat_map(files).collect()
    }

    #[test]
    fn r41_the_oldest_images_are_left_out_in_steps_and_the_newest_stay() {
        let names = |from: usize, to: usize| (from..to).map(|number| format!("{number}.png")).collect::<Vec<_>>();
        for (images, first) in [(1, 0), (12, 0), (13, 4), (16, 4), (17, 8), (40, 28)] {
            assert_eq!(shown(images), names(first, images), "{images} images");
        }
        // A single message that exceeds the limit is sent nevertheless.
        let file = File { media_type: "application/pdf".into(), name: "a.pdf".into(), bytes: vec![0; 15 << 20].into() };
        let alone = vec![Cached::from(Message::User { text: "read".into(), files: vec![file] })];
        let alone = without_images(request(Api::Gemini, true, alone));
        assert!(matches!(&*alone.messages[0], Message::User { files, .. } if files.len() == 1));
    }

    /// R41: what is counted is what is left out.
    #[test]
    fn r41_the_files_that_are_left_out_are_counted() {
        for (images, sees_images) in [(0, true), (1, true), (12, true), (13, true), (40, true), (3, false), (40, false)]
        {
            let messages = conversation(images);
            let of = |message: &Cached<Message>| match &**message {
                Message::User { files, .. } | Message::Result { files, .. } => files.clone(),
                Message::Assistant(_) => vec![],
            };
            let all: Vec<Vec<File>> = messages.iter().map(of).collect();
            let sized: Vec<Vec<(&str, u64)>> = all
                .iter()
                .map(|files| files.iter().map(|file| (&*file.media_type, file.bytes.len() as u64)).collect())
                .collect();
            let sent = without_images(request(Api::Gemini, sees_images, messages));
            let left: usize = sent.messages.iter().map(|message| of(message).len()).sum();
            assert_eq!(files_left_out(&sized, sees_images), images - left, "{images} images, {sees_images}");
        }
    }
}
