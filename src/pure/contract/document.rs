//! Typed, strict access to the fields of a contract document: every refusal names the place. Must not know
//! what the fields mean.

use serde_json::{Map, Value};

use super::ContractError;

/// One object of the document and the path to it.
#[derive(Clone)]
pub(super) struct Fields<'a> {
    place: &'a str,
    path: String,
    fields: &'a Map<String, Value>,
}

impl<'a> Fields<'a> {
    /// The document itself.
    pub(super) fn root(place: &'a str, document: &'a Value) -> Result<Self, ContractError> {
        Self::of(place, String::new(), document)
    }

    fn of(place: &'a str, path: String, value: &'a Value) -> Result<Self, ContractError> {
        match value {
            Value::Object(fields) => Ok(Fields { place, path, fields }),
            other => Err(ContractError {
                place: place.to_owned(),
                path,
                message: format!("an object is expected here, not {}", kind(other)),
            }),
        }
    }

    /// An error at the field `name` of this object; at the object itself where `name` is empty.
    pub(super) fn error(&self, name: &str, message: impl Into<String>) -> ContractError {
        let path = match (self.path.as_str(), name) {
            ("", name) => name.to_owned(),
            (path, "") => path.to_owned(),
            (path, name) => format!("{path}.{name}"),
        };
        ContractError { place: self.place.to_owned(), path, message: message.into() }
    }

    /// Refuses any field that is not in `known`.
    pub(super) fn only(&self, known: &[&str]) -> Result<(), ContractError> {
        match self.fields.keys().find(|name| !known.contains(&name.as_str())) {
            None => Ok(()),
            Some(name) => {
                Err(self.error(name, format!("unknown field; known here are {}", known.join(", "))))
            }
        }
    }

    /// The names and values of the object, in document order.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&'a str, &'a Value)> + use<'a> {
        self.fields.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// The field's value; null is as good as absent.
    pub(super) fn optional(&self, name: &str) -> Option<&'a Value> {
        self.fields.get(name).filter(|value| !value.is_null())
    }

    pub(super) fn required(&self, name: &str) -> Result<&'a Value, ContractError> {
        self.optional(name).ok_or_else(|| self.error(name, "this field is required"))
    }

    pub(super) fn optional_object(&self, name: &str) -> Result<Option<Fields<'a>>, ContractError> {
        self.optional(name).map(|value| Self::of(self.place, self.error(name, "").path, value)).transpose()
    }

    pub(super) fn object(&self, name: &str) -> Result<Fields<'a>, ContractError> {
        Self::of(self.place, self.error(name, "").path, self.required(name)?)
    }

    pub(super) fn text(&self, name: &str) -> Result<&'a str, ContractError> {
        self.as_text(name, self.required(name)?)
    }

    pub(super) fn optional_text(&self, name: &str) -> Result<Option<&'a str>, ContractError> {
        self.optional(name).map(|value| self.as_text(name, value)).transpose()
    }

    /// `value`, found at the field `name`, as text.
    pub(super) fn as_text(&self, name: &str, value: &'a Value) -> Result<&'a str, ContractError> {
        value.as_str().ok_or_else(|| self.error(name, format!("text is expected here, not {}", kind(value))))
    }

    /// The items of a list of texts, each with its name for messages.
    pub(super) fn texts(&self, name: &str) -> Result<Vec<(String, &'a str)>, ContractError> {
        let mut texts = Vec::new();
        for (place, item) in self.items(name)? {
            let text = self.as_text(&place, item)?;
            texts.push((place, text));
        }
        Ok(texts)
    }

    /// The items of a list of objects.
    pub(super) fn objects(&self, name: &str) -> Result<Vec<Fields<'a>>, ContractError> {
        self.items(name)?
            .into_iter()
            .map(|(place, item)| Self::of(self.place, self.error(&place, "").path, item))
            .collect()
    }

    fn items(&self, name: &str) -> Result<Vec<(String, &'a Value)>, ContractError> {
        let items = match self.optional(name) {
            None => return Ok(Vec::new()),
            Some(Value::Array(items)) => items,
            Some(other) => {
                return Err(self.error(name, format!("a list is expected here, not {}", kind(other))));
            }
        };
        let places = (0..items.len()).map(|position| format!("{name}.{position}"));
        Ok(places.zip(items).collect())
    }

    pub(super) fn optional_positive(&self, name: &str) -> Result<Option<u64>, ContractError> {
        let Some(value) = self.optional(name) else {
            return Ok(None);
        };
        match value.as_u64() {
            // SQLite and Redis clients count in signed 64 bits.
            Some(number) if number > 0 && i64::try_from(number).is_ok() => Ok(Some(number)),
            _ => Err(self.error(name, format!("a whole number from 1 is expected here, not {value}"))),
        }
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
