//! The blocks of an answer in the order of their arrival, with the provider's signatures. The texts are stored
//! elsewhere; a block has the number of its bytes in them.

use serde::{Deserialize, Serialize};

use crate::body::{BodyKind, Content};

/// The kind of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockOf {
    /// A block of reasoning.
    Reasoning,
    /// A block of text.
    Text,
    /// The call of this index: while it streams the provider's, in a message its place among the calls.
    Call(u32),
}

/// A block of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the fields say it themselves")]
pub struct Block {
    pub of: BlockOf,
    /// Its bytes in the message's text or reasoning; 0 for calls.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub bytes: u64,
    /// The provider's own text for it, sent back to the same model alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}

/// Blocks of a streaming answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockList(Vec<Block>);

/// The stored blocks of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Blocks {
    /// The model that made them, `PROVIDER/MODEL`: no other can read the signatures.
    pub model: String,
    /// The blocks in the order of the answer.
    pub blocks: Vec<Block>,
}

impl Blocks {
    /// The blocks as a body: JSON, named by its hash.
    pub fn content(&self) -> Content {
        let json = serde_json::to_vec(self).expect("blocks hold only strings and numbers");
        Content::new(BodyKind::Blocks, json)
    }

    /// Reads the body that [`Blocks::content`] made.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(bytes)
    }
}

impl BlockList {
    /// Adds to the open block, or begins one. Returns the added bytes.
    pub(crate) fn add(&mut self, of: BlockOf, bytes: usize) -> u64 {
        let bytes = bytes as u64;
        let known = matches!(of, BlockOf::Call(_)) && self.0.iter().any(|block| block.of == of);
        match self.0.last_mut() {
            Some(last) if last.of == of && last.signature.is_none() => last.bytes += bytes,
            _ if known => {}
            _ => self.0.push(Block { of, bytes, signature: None }),
        }
        bytes
    }

    /// Signs the last block of a kind, or begins a signed one. Returns the bytes of the signature.
    pub(crate) fn sign(&mut self, of: BlockOf, signature: &str) -> u64 {
        let open = match of {
            BlockOf::Call(_) => self.0.iter_mut().find(|block| block.of == of),
            BlockOf::Reasoning | BlockOf::Text => self.0.last_mut().filter(|last| last.of == of),
        };
        let added = signature.len() as u64;
        let signature = Some(signature.to_owned());
        match open.filter(|block| block.signature.is_none()) {
            Some(block) => block.signature = signature,
            None => self.0.push(Block { of, bytes: 0, signature }),
        }
        added
    }

    /// Drops unsigned reasoning of an interrupted answer. Returns the signed reasoning.
    pub(crate) fn keep_signed(&mut self, reasoning: &str) -> String {
        let (mut from, mut kept) = (0, String::new());
        self.0.retain(|block| {
            if block.of != BlockOf::Reasoning {
                return true;
            }
            let to = from + block.bytes as usize;
            let signed = block.signature.is_some();
            kept.push_str(reasoning.get(from..to).filter(|_| signed).unwrap_or_default());
            from = to;
            signed
        });
        kept
    }

    /// Names each call by its place in the message; drops those that have none. None if that leaves reasoning, text and
    /// calls in this order without a signature, which needs no list.
    pub(crate) fn sealed(self, place: impl Fn(u32) -> Option<u32>) -> Option<Vec<Block>> {
        let mut blocks = self.0;
        blocks.retain_mut(|block| match block.of {
            BlockOf::Call(index) => place(index).map(|place| block.of = BlockOf::Call(place)).is_some(),
            BlockOf::Reasoning | BlockOf::Text => true,
        });
        let rank = |block: &Block| match block.of {
            BlockOf::Reasoning => 0,
            BlockOf::Text => 1,
            BlockOf::Call(place) => 2 + u64::from(place),
        };
        let unsigned = |block: &Block| block.signature.is_none();
        let is_plain = blocks.iter().all(unsigned) && blocks.is_sorted_by(|a, b| rank(a) < rank(b));
        (!is_plain).then_some(blocks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(of: BlockOf, bytes: u64, signature: Option<&str>) -> Block {
        Block { of, bytes, signature: signature.map(str::to_owned) }
    }

    #[test]
    fn reasoning_text_and_calls_in_order_need_no_list() {
        let mut list = BlockList::default();
        list.add(BlockOf::Reasoning, 2);
        list.add(BlockOf::Text, 3);
        list.add(BlockOf::Text, 4);
        list.add(BlockOf::Call(0), 0);
        list.add(BlockOf::Call(7), 0);
        list.add(BlockOf::Call(0), 0);
        assert_eq!(list.clone().sealed(|index| Some(u32::from(index == 7))), None);
        list.add(BlockOf::Text, 1);
        assert_eq!(list.sealed(|index| Some(u32::from(index == 7))).map(|blocks| blocks.len()), Some(5));
    }

    #[test]
    fn a_signature_closes_its_block_and_the_next_is_another() {
        let mut list = BlockList::default();
        list.add(BlockOf::Reasoning, 2);
        list.sign(BlockOf::Reasoning, "a");
        list.sign(BlockOf::Reasoning, "hidden");
        list.add(BlockOf::Reasoning, 3);
        list.add(BlockOf::Call(4), 0);
        list.add(BlockOf::Text, 1);
        list.sign(BlockOf::Call(4), "c");
        let expected = vec![
            block(BlockOf::Reasoning, 2, Some("a")),
            block(BlockOf::Reasoning, 0, Some("hidden")),
            block(BlockOf::Reasoning, 3, None),
            block(BlockOf::Call(0), 0, Some("c")),
            block(BlockOf::Text, 1, None),
        ];
        assert_eq!(list.clone().sealed(|_| Some(0)), Some(expected));
        assert_eq!(list.keep_signed("ab---"), "ab");
        assert_eq!(list.sealed(|_| None).map(|blocks| blocks.len()), Some(3), "open reasoning and the call are gone");
    }
}
