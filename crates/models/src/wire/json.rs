//! JSON that keeps the order of fields, so that a model receives the arguments of its calls as it wrote them.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};
use serde_json::Value;

/// A JSON value whose objects keep their order.
#[derive(Debug, PartialEq)]
pub(crate) enum Json {
    /// Null, a boolean, a number or a string.
    Scalar(Value),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    /// The arguments of a call as an object. Invalid arguments (the model broke off or broke the format) would make a
    /// server refuse the whole conversation forever; the result after the call says what was wrong.
    pub(crate) fn arguments(text: &str) -> Self {
        let json = serde_json::from_str(text).ok();
        json.filter(|json| matches!(json, Self::Object(_))).unwrap_or_default()
    }

    /// Serialises the value without white space.
    pub(crate) fn text(&self) -> String {
        serde_json::to_string(self).expect("strings, numbers and JSON values can be written")
    }
}

impl Default for Json {
    fn default() -> Self {
        Self::Object(vec![])
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Scalar(value) => value.serialize(serializer),
            Self::List(items) => serializer.collect_seq(items),
            Self::Object(fields) => serializer.collect_map(fields.iter().map(|(name, value)| (name, value))),
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Ordered)
    }
}

struct Ordered;

impl<'de> Visitor<'de> for Ordered {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }
    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Scalar(Value::Null))
    }
    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Scalar(value.into()))
    }
    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Scalar(value.into()))
    }
    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Scalar(value.into()))
    }
    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        Ok(Json::Scalar(value.into()))
    }
    fn visit_str<E>(self, text: &str) -> Result<Json, E> {
        Ok(Json::Scalar(text.into()))
    }
    fn visit_string<E>(self, text: String) -> Result<Json, E> {
        Ok(Json::Scalar(text.into()))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Json, A::Error> {
        let mut items = vec![];
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Json::List(items))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Json, A::Error> {
        let mut fields = vec![];
        while let Some(field) = object.next_entry()? {
            fields.push(field);
        }
        Ok(Json::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r41_order_and_numbers_of_arguments_are_kept() {
        let text = r#"{"z":1.0,"a":[{"y":-2,"b":null},true,"潮\n"],"m":{},"n":18446744073709551615}"#;
        assert_eq!(Json::arguments(text).text(), text);
        assert_eq!(Json::arguments(" { \"b\" : 1 , \"a\" : 2 } ").text(), r#"{"b":1,"a":2}"#);
    }

    #[test]
    fn r41_arguments_that_are_no_object_are_an_empty_one() {
        for text in ["", "{\"pa", "[1]", "7", "null", "{} x", &"[".repeat(1000)] {
            assert_eq!(Json::arguments(text).text(), "{}", "{text}");
        }
    }
}
