//! Sees at a glance that arguments fit a plain schema. Compiling a schema takes more than a whole round of the agent loop,
//! and most processes call few tools, with arguments that fit.

use serde_json::{Map, Value};

/// Whether the value certainly fits the schema. False if it does not, or if the schema says more than is understood here: then
/// the validator decides.
pub(crate) fn certainly_fits(schema: &Value, value: &Value) -> bool {
    let Value::Object(rules) = schema else { return false };
    rules.iter().all(|(rule, demand)| match rule.as_str() {
        "description" => true,
        "type" => is_of_type(demand, value),
        "items" => value.as_array().is_some_and(|items| items.iter().all(|item| certainly_fits(demand, item))),
        "minItems" => value.as_array().zip(demand.as_u64()).is_some_and(|(items, least)| items.len() as u64 >= least),
        "maxItems" => value.as_array().zip(demand.as_u64()).is_some_and(|(items, most)| items.len() as u64 <= most),
        "enum" => demand.as_array().is_some_and(|known| known.contains(value)),
        "minLength" => value.as_str().zip(demand.as_u64()).is_some_and(|(text, least)| has_chars(text, least)),
        "minimum" => integer(value).zip(integer(demand)).is_some_and(|(number, least)| number >= least),
        "maximum" => integer(value).zip(integer(demand)).is_some_and(|(number, most)| number <= most),
        "required" => fields(value).zip(demand.as_array()).is_some_and(|(fields, names)| has_all(fields, names)),
        "properties" => fields(value).zip(fields(demand)).is_some_and(|(fields, known)| {
            fields.iter().all(|(name, value)| known.get(name).is_none_or(|schema| certainly_fits(schema, value)))
        }),
        "additionalProperties" => {
            fields(value).zip(rules.get("properties").and_then(fields)).is_some_and(|(fields, known)| {
                *demand == Value::Bool(false) && fields.keys().all(|name| known.contains_key(name))
            })
        }
        _ => false,
    })
}

fn is_of_type(demand: &Value, value: &Value) -> bool {
    match demand.as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => integer(value).is_some(),
        _ => false,
    }
}

fn fields(value: &Value) -> Option<&Map<String, Value>> {
    value.as_object()
}

/// A number that is written as an integer. `10.0` is one for a schema too, which the validator knows.
fn integer(value: &Value) -> Option<i128> {
    value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from))
}

fn has_chars(text: &str, least: u64) -> bool {
    usize::try_from(least).is_ok_and(|least| least == 0 || text.chars().nth(least - 1).is_some())
}

fn has_all(fields: &Map<String, Value>, names: &[Value]) -> bool {
    names.iter().all(|name| name.as_str().is_some_and(|name| fields.contains_key(name)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema_validator::SchemaValidator;
    use crate::tool_set::specs;

    /// Values of which some fit and some do not.
    fn values() -> Vec<Value> {
        let mut values = vec![json!(null), json!(true), json!([]), json!({}), json!(""), json!("a"), json!("list")];
        values.extend([0, 1, 2_000, 2_001, 60_000, 60_001].map(Value::from));
        values.extend([json!(-1), json!(u64::MAX), json!(1.5), json!(10.0), json!("\u{1f600}")]);
        values
    }

    /// Each tool with each field alone, each pair of fields, and a field that no tool has: the validator never sees a
    /// violation where none is seen here, and nothing that fits a call needs the validator.
    #[test]
    fn what_fits_at_a_glance_fits_the_schema() {
        for spec in specs().iter() {
            let validator = SchemaValidator::new(&spec.schema).unwrap();
            let known = spec.schema["properties"].as_object().unwrap();
            let names: Vec<&str> = known.keys().map(String::as_str).chain(["unknown"]).collect();
            let mut fitting = 0;
            let mut check = |arguments: &Value| {
                let fits = certainly_fits(&spec.schema, arguments);
                let violations = validator.violations(arguments);
                let has_fraction = arguments.to_string().contains("10.0");
                assert_eq!(fits || has_fraction && violations.is_empty(), violations.is_empty(), "{arguments}");
                fitting += u32::from(fits);
            };
            values().iter().for_each(&mut check);
            let required: Map<_, _> = spec.schema["required"]
                .as_array()
                .unwrap()
                .iter()
                .map(|name| {
                    let name = name.as_str().unwrap();
                    let value = match name {
                        "action" => json!("list"),
                        "items" => json!([{ "step": "x", "status": "done" }]),
                        _ => json!("x"),
                    };
                    (name.to_owned(), value)
                })
                .collect();
            for one in &names {
                for (other, value) in
                    names.iter().flat_map(|name| values().into_iter().step_by(5).map(move |value| (name, value)))
                {
                    for own in values() {
                        let mut arguments = required.clone();
                        arguments.insert((*one).to_owned(), own);
                        arguments.insert((*other).to_owned(), value.clone());
                        check(&Value::Object(arguments));
                    }
                }
            }
            assert!(fitting > 5, "{}: {fitting}", spec.name);
        }
    }

    #[test]
    fn a_schema_that_says_more_is_left_to_the_validator() {
        for schema in [
            json!(true),
            json!({ "type": ["string", "null"] }),
            json!({ "anyOf": [{}] }),
            json!({ "type": "string", "pattern": "a" }),
            json!({ "minLength": 1.0 }),
            json!({ "additionalProperties": false }),
        ] {
            assert!(!certainly_fits(&schema, &json!("a")), "{schema}");
        }
    }
}
