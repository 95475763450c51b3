//! Renders the parts of a request that later requests repeat only once, so that a request is mostly a copy of bytes.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;

use crate::endpoint::Api;

/// Everything except the value on which its rendering depends: two requests of one dialect render a value alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dialect(Arc<str>);

impl Dialect {
    /// The dialect of an API with all else that affects its rendering, such as the model whose signatures are known.
    pub(crate) fn new(api: Api, details: &str) -> Self {
        Self(format!("{} {details}", api.name()).into())
    }

    /// The dialect of a message that repeats earlier ids ([`crate::normalize::repeats`]).
    pub(crate) fn of_repeat(&self, repeat: usize) -> Self {
        if repeat == 0 { self.clone() } else { Self(format!("{} {repeat}", self.0).into()) }
    }
}

/// A value with its rendering in the last requested dialect. Clones share both. So the renderings of a conversation take at
/// most about as much memory as its texts.
pub struct Cached<T>(Arc<Shared<T>>);

struct Shared<T> {
    value: T,
    rendering: Mutex<Option<(Dialect, Arc<[u8]>)>>,
}

impl<T> Cached<T> {
    /// The value as items of a JSON list, without brackets; empty if there are none. `render` is called once a dialect and may
    /// use only the value and the contents of the dialect.
    pub(crate) fn items(&self, dialect: &Dialect, render: impl FnOnce(&T, &mut List<'_>)) -> Arc<[u8]> {
        // A rendering is set atomically, so a panic elsewhere leaves nothing incomplete.
        let mut kept = self.0.rendering.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, items)) = kept.as_ref().filter(|(of, _)| of == dialect) {
            return Arc::clone(items);
        }
        let items = items(|list| render(&self.0.value, list));
        *kept = Some((dialect.clone(), Arc::clone(&items)));
        items
    }
}

impl<T> From<T> for Cached<T> {
    fn from(value: T) -> Self {
        Self(Arc::new(Shared { value, rendering: Mutex::default() }))
    }
}

impl<T> From<Vec<T>> for Cached<Arc<[T]>> {
    fn from(values: Vec<T>) -> Self {
        Self::from(Arc::<[T]>::from(values))
    }
}

impl<T> Clone for Cached<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Deref for Cached<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.value
    }
}

impl<T: fmt::Debug> fmt::Debug for Cached<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.value.fmt(f)
    }
}

/// Items of a list, without caching.
pub(crate) fn items(render: impl FnOnce(&mut List<'_>)) -> Arc<[u8]> {
    let mut bytes = vec![];
    render(&mut List { bytes: &mut bytes, is_empty: true });
    bytes.into()
}

/// The initial capacity for the head of a request and its tools, bytes; the document grows if needed.
const ROOM_BESIDE: usize = 8 << 10;

/// A writer of a JSON object: first its own fields, then its lists.
pub(crate) struct Object<'a> {
    bytes: &'a mut Vec<u8>,
}

impl Object<'_> {
    /// Writes a document: the fields of `head`, a struct or a map with at least one field, and those that `rest` adds. It
    /// reserves capacity for `items`, its largest part.
    pub(crate) fn document(head: &impl Serialize, items: &[Arc<[u8]>], rest: impl FnOnce(&mut Object<'_>)) -> Vec<u8> {
        let room = items.iter().map(|items| items.len() + 1).sum::<usize>();
        let mut bytes = Vec::with_capacity(room + ROOM_BESIDE);
        Object::write(&mut bytes, head, rest);
        bytes
    }

    /// Writes a field whose value is JSON already.
    pub(crate) fn json(&mut self, name: &str, json: &str) {
        self.bytes.push(b',');
        write_value(self.bytes, name);
        self.bytes.push(b':');
        self.bytes.extend_from_slice(json.as_bytes());
    }

    fn write(bytes: &mut Vec<u8>, head: &impl Serialize, rest: impl FnOnce(&mut Object<'_>)) {
        write_value(bytes, head);
        assert_eq!(bytes.pop(), Some(b'}'), "the head of an object is an object");
        rest(&mut Object { bytes: &mut *bytes });
        bytes.push(b'}');
    }

    /// Writes a field that is a list.
    pub(crate) fn list(&mut self, name: &str, items: impl FnOnce(&mut List<'_>)) {
        self.bytes.push(b',');
        write_value(self.bytes, name);
        self.bytes.extend_from_slice(b":[");
        items(&mut List { bytes: &mut *self.bytes, is_empty: true });
        self.bytes.push(b']');
    }
}

/// A writer of a JSON list.
pub(crate) struct List<'a> {
    bytes: &'a mut Vec<u8>,
    is_empty: bool,
}

impl List<'_> {
    /// Adds a value.
    pub(crate) fn value(&mut self, value: &impl Serialize) {
        self.comma();
        write_value(self.bytes, value);
    }

    /// Adds an object with lists, such as a message that merges the parts of several.
    pub(crate) fn object(&mut self, head: &impl Serialize, rest: impl FnOnce(&mut Object<'_>)) {
        self.comma();
        Object::write(self.bytes, head, rest);
    }

    /// Adds the items from [`Cached::items`].
    pub(crate) fn items(&mut self, items: &[u8]) {
        if !items.is_empty() {
            self.comma();
            self.bytes.extend_from_slice(items);
        }
    }

    /// Adds the items from [`Cached::items`], which are objects, with one more field in the last: `"name":value`.
    pub(crate) fn items_with(&mut self, items: &[u8], field: &str) {
        let open = items.strip_suffix(b"}").expect("the last item is an object");
        self.items(open);
        self.bytes.push(b',');
        self.bytes.extend_from_slice(field.as_bytes());
        self.bytes.push(b'}');
    }

    fn comma(&mut self) {
        if !std::mem::replace(&mut self.is_empty, false) {
            self.bytes.push(b',');
        }
    }
}

fn write_value(bytes: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    serde_json::to_writer(bytes, value).expect("strings, numbers and JSON values can be written");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn twice(text: &Arc<str>, list: &mut List<'_>) {
        list.value(text);
        list.value(text);
    }

    #[test]
    fn a_value_is_rendered_once_for_a_dialect_and_anew_for_another() {
        let cached = Cached::from(Arc::<str>::from("a"));
        let (one, two) = (Dialect::new(Api::OpenAiChat, ""), Dialect::new(Api::OpenAiChat, "reasoning"));
        assert_eq!(&*cached.items(&one, twice), br#""a","a""#);
        assert_eq!(&*cached.clone().items(&one, |_, _| panic!("rendered again")), br#""a","a""#);
        assert_eq!(&*cached.items(&two, |_, _| {}), b"");
        assert_eq!(&*cached.items(&one, twice), br#""a","a""#);
    }

    #[test]
    fn lists_follow_the_head_and_nothing_leaves_no_comma() {
        let cached = Cached::from(Arc::<str>::from("a"));
        let dialect = Dialect::new(Api::OpenAiChat, "");
        let document = Object::document(&json!({ "model": "m" }), &[], |object| {
            object.list("none", |_| {});
            object.list("messages", |list| {
                list.items(b"");
                list.items(&cached.items(&dialect, twice));
                list.object(&json!({ "role": "user" }), |message| message.list("content", |list| list.value(&1)));
            });
        });
        let expected = r#"{"model":"m","none":[],"messages":["a","a",{"role":"user","content":[1]}]}"#;
        assert_eq!(String::from_utf8_lossy(&document), expected);
    }
}
