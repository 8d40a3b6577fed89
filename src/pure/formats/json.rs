//! A JSON document whose values stay text until somebody asks for one: numbers keep their digits, and what nobody
//! asks for costs one pass. Knows JSON and nothing of what a name means.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::pure::event::{Mistake, Reason};

/// One value, as its text in the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Json<'a>(&'a str);

/// A value by its kind; numbers as they are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind<'a> {
    Null,
    Bool(bool),
    Number(&'a str),
    Text(Cow<'a, str>),
    Object,
    Array,
}

impl<'a> Json<'a> {
    /// The value that a whole message is.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Mistake> {
        let raw: &RawValue = serde_json::from_slice(bytes).map_err(not_json)?;
        Ok(Json(raw.get()))
    }

    pub fn raw(self) -> &'a str {
        self.0
    }

    pub fn is_null(self) -> bool {
        self.0 == "null"
    }

    pub fn is_object(self) -> bool {
        self.0.starts_with('{')
    }

    pub fn is_array(self) -> bool {
        self.0.starts_with('[')
    }

    pub fn kind(self) -> Result<Kind<'a>, Mistake> {
        Ok(match self.0.as_bytes().first() {
            Some(b'{') => Kind::Object,
            Some(b'[') => Kind::Array,
            Some(b'n') => Kind::Null,
            Some(b't') => Kind::Bool(true),
            Some(b'f') => Kind::Bool(false),
            Some(b'"') => Kind::Text(self.text()?),
            _ => Kind::Number(self.0),
        })
    }

    /// The text of a string.
    fn text(self) -> Result<Cow<'a, str>, Mistake> {
        let inner = self.0.get(1..self.0.len().saturating_sub(1)).unwrap_or_default();
        // What has no escapes can be borrowed; control characters within are JSON's own mistake.
        if !inner.bytes().any(|byte| byte == b'\\' || byte < 0x20) {
            return Ok(Cow::Borrowed(inner));
        }
        serde_json::from_str::<String>(self.0).map(Cow::Owned).map_err(not_json)
    }

    /// The text of a string, nothing for null, and a mistake for anything else.
    pub fn as_text(self, name: &str) -> Result<Option<Cow<'a, str>>, Mistake> {
        match self.kind()? {
            Kind::Text(text) => Ok(Some(text)),
            Kind::Null => Ok(None),
            _ => Err((Reason::WrongType, format!("{name} must be text"))),
        }
    }

    /// A whole number from 0 on, as a number or as text, nothing for null.
    pub fn as_number(self, name: &str) -> Result<Option<u64>, Mistake> {
        let wrong =
            || (Reason::WrongType, format!("{name} must be a whole number from 0 on, it is {}", self.0));
        match self.kind()? {
            Kind::Null => Ok(None),
            Kind::Number(text) => text.parse().map(Some).map_err(|_| wrong()),
            Kind::Text(text) => text.parse().map(Some).map_err(|_| wrong()),
            _ => Err(wrong()),
        }
    }

    /// The value as an object.
    pub fn object(self, name: &str) -> Result<Object<'a>, Mistake> {
        if !self.is_object() {
            return Err((Reason::NotObject, format!("{name} must be an object")));
        }
        serde_json::from_str(self.0).map_err(not_json)
    }

    /// The value as an object, nothing for null.
    pub fn object_or_null(self, name: &str) -> Result<Option<Object<'a>>, Mistake> {
        if self.is_null() { Ok(None) } else { self.object(name).map(Some) }
    }

    /// The items of an array.
    pub fn items(self, name: &str) -> Result<Vec<Json<'a>>, Mistake> {
        if !self.is_array() {
            return Err((Reason::WrongType, format!("{name} must be an array")));
        }
        let items: Items<'a> = serde_json::from_str(self.0).map_err(not_json)?;
        Ok(items.0)
    }
}

fn not_json(error: serde_json::Error) -> Mistake {
    (Reason::NotJson, error.to_string())
}

/// The entries of one object, in the message's order.
#[derive(Clone, Debug, Default)]
pub struct Object<'a> {
    entries: Vec<(Cow<'a, str>, Json<'a>)>,
}

impl<'a> Object<'a> {
    /// The value of a name. A name that occurs twice says two things, and so is a mistake.
    pub fn get(&self, name: &str) -> Result<Option<Json<'a>>, Mistake> {
        let mut found = self.entries.iter().filter(|(known, _)| *known == name).map(|(_, value)| *value);
        let first = found.next();
        if found.next().is_some() {
            return Err((Reason::DuplicateField, format!("{name} occurs twice")));
        }
        Ok(first)
    }

    /// As [`get`](Object::get), without null.
    pub fn some(&self, name: &str) -> Result<Option<Json<'a>>, Mistake> {
        Ok(self.get(name)?.filter(|value| !value.is_null()))
    }

    /// The text of a name, nothing where it is missing or null.
    pub fn text(&self, name: &str) -> Result<Option<Cow<'a, str>>, Mistake> {
        match self.get(name)? {
            Some(value) => value.as_text(name),
            None => Ok(None),
        }
    }

    /// The whole number of a name, nothing where it is missing or null.
    pub fn number(&self, name: &str) -> Result<Option<u64>, Mistake> {
        match self.get(name)? {
            Some(value) => value.as_number(name),
            None => Ok(None),
        }
    }

    pub fn has(&self, name: &str) -> bool {
        self.entries.iter().any(|(known, _)| known == name)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|(name, _)| &**name)
    }

    pub fn entries(&self) -> impl Iterator<Item = (&str, Json<'a>)> {
        self.entries.iter().map(|(name, value)| (&**name, *value))
    }
}

impl<'de> serde::Deserialize<'de> for Object<'de> {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        struct ObjectVisitor;
        impl<'de> Visitor<'de> for ObjectVisitor {
            type Value = Object<'de>;
            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object<'de>, A::Error> {
                let mut entries = Vec::with_capacity(16);
                while let Some(Name(name)) = map.next_key()? {
                    let value: &'de RawValue = map.next_value()?;
                    entries.push((name, Json(value.get())));
                }
                Ok(Object { entries })
            }
        }
        input.deserialize_map(ObjectVisitor)
    }
}

struct Items<'a>(Vec<Json<'a>>);

impl<'de> serde::Deserialize<'de> for Items<'de> {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        struct ItemsVisitor;
        impl<'de> Visitor<'de> for ItemsVisitor {
            type Value = Items<'de>;
            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an array")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Items<'de>, A::Error> {
                let mut items = Vec::new();
                while let Some(value) = list.next_element::<&'de RawValue>()? {
                    items.push(Json(value.get()));
                }
                Ok(Items(items))
            }
        }
        input.deserialize_seq(ItemsVisitor)
    }
}

/// A name of an object, borrowed from the message where it has no escapes.
pub(crate) struct Name<'de>(pub(crate) Cow<'de, str>);

impl<'de> serde::Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        struct NameVisitor;
        impl<'de> Visitor<'de> for NameVisitor {
            type Value = Name<'de>;
            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a name")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Owned(text.into())))
            }
        }
        input.deserialize_str(NameVisitor)
    }
}
