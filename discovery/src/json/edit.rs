//! Edits of a record. Everything else in it stays as it is: fields that this version or the type of
//! the payload does not know, the digits of numbers, and the order.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;

use super::read::{Fault, RecordFields, check, read, scalar, text};
use super::scalar::boolean;
use super::text::{WrittenJson, joined, pairs};
use super::write::{JsonMode, WriteError, finished};

/// Returns `true` if the data are one JSON object that readers accept: a record, perhaps with
/// values that we cannot read.
pub(crate) fn is_document(data: &[u8]) -> bool {
    checked(data).and_then(RecordFields::of).is_ok()
}

/// Returns the address in a record.
pub(crate) fn address(data: &[u8]) -> Option<String> {
    read::<IgnoredAny>(data, "", "").ok()?.address
}

/// Returns `false` if a record says that the instance gets no traffic. The rest of the record is
/// not read.
pub(crate) fn is_enabled(data: &[u8]) -> Result<bool, Fault> {
    let text = checked(data)?;
    let fields = RecordFields::of(text)?;
    let enabled = fields.iter().find(|(name, _)| *name == "enabled");
    enabled.map_or(Ok(true), |(_, raw)| scalar(text, raw, boolean))
}

/// Returns the record with another value of `enabled`.
pub(crate) fn with_enabled(
    data: &[u8],
    enabled: bool,
    mode: JsonMode,
) -> Result<Bytes, WriteError> {
    let field = |enabled: bool| ("enabled".to_owned(), enabled.to_string());
    let after = if enabled && mode == JsonMode::Compatible { vec![] } else { vec![field(enabled)] };
    edited(data, &vec![field(!enabled)], &after).map_err(WriteError::Unreadable).and_then(finished)
}

/// Returns the record with the difference between `before` and `after`. `before` is what was read
/// from it. Nothing is written where both are equal.
///
/// `is_right` says whether a record is read as `after`. If it is not, as with a payload that reads
/// another name than it writes, each field that differs is replaced as a whole.
pub(crate) fn updated(
    data: &Bytes,
    before: &WrittenJson,
    after: &WrittenJson,
    read: impl FnOnce(&[u8]) -> Option<WrittenJson>,
) -> Result<Bytes, WriteError> {
    if before == after {
        return Ok(data.clone());
    }
    let merged = edited(data, before, after).map_err(WriteError::Unreadable)?;
    let read = read(merged.as_bytes());
    if read.is_some_and(|read| is_alike(&read, after)) {
        return finished(merged);
    }
    let (was, is) = (map(before), map(after));
    let gone = |(name, _): &&(String, String)| !is.contains_key(name.as_str());
    let differs =
        |(name, value): &&(String, String)| was.get(name.as_str()) != Some(&value.as_str());
    let gone: WrittenJson = before.iter().filter(gone).cloned().collect();
    let changed: WrittenJson = after.iter().filter(differs).cloned().collect();
    finished(edited(data, &gone, &changed).map_err(WriteError::Unreadable)?)
}

fn checked(data: &[u8]) -> Result<&str, Fault> {
    let text = text(data)?;
    check(text)?;
    Ok(text)
}

fn edited(data: &[u8], before: &WrittenJson, after: &WrittenJson) -> Result<String, Fault> {
    object(checked(data)?, before, after)
}

/// Returns the values by their names.
fn map(fields: &WrittenJson) -> BTreeMap<&str, &str> {
    pairs(fields).collect()
}

/// Returns `true` if the values are equal, whatever the order of their fields.
fn is_alike(one: &WrittenJson, other: &WrittenJson) -> bool {
    let values = |fields: &WrittenJson| -> Option<BTreeMap<String, Value>> {
        let value = |(name, value): &(String, String)| {
            Some((name.clone(), serde_json::from_str(value).ok()?))
        };
        fields.iter().map(value).collect()
    };
    values(one).is_some_and(|one| values(other) == Some(one))
}

fn object(text: &str, before: &WrittenJson, after: &WrittenJson) -> Result<String, Fault> {
    let (was, is) = (map(before), map(after));
    let present = RecordFields::of(text)?;
    let names: BTreeSet<&str> = present.iter().map(|(name, _)| name).collect();
    let mut edited: WrittenJson = Vec::new();
    for (name, raw) in present.iter() {
        match (was.get(name), is.get(name)) {
            (before, Some(after)) => {
                edited.push((name.to_owned(), merged(raw, before.copied(), after)?));
            }
            (None, None) => edited.push((name.to_owned(), raw.to_owned())),
            // It was removed.
            (Some(_), None) => {}
        }
    }
    for (name, value) in after {
        if !names.contains(name.as_str()) && was.get(name.as_str()) != Some(&value.as_str()) {
            edited.push((name.clone(), value.clone()));
        }
    }
    Ok(joined(pairs(&edited)))
}

/// Returns the value `raw`, which was read as `before`, with the difference between `before` and
/// `after`.
fn merged(raw: &str, before: Option<&str>, after: &str) -> Result<String, Fault> {
    let Some(before) = before else { return Ok(after.to_owned()) };
    if before == after {
        return Ok(raw.to_owned());
    }
    let all = [raw, before, after];
    if all.iter().all(|value| value.starts_with('{')) {
        return object(raw, &written(before)?, &written(after)?);
    }
    if all.iter().all(|value| value.starts_with('[')) {
        let [raw, before, after] = [items(raw)?, items(before)?, items(after)?];
        if raw.len() == before.len() {
            return list(&raw, &before, &after);
        }
    }
    Ok(after.to_owned())
}

/// Merges the items of lists: those before and behind the difference stay, and where the number of
/// the others is the same, each is merged with the one in its place.
fn list(raw: &[&str], before: &[&str], after: &[&str]) -> Result<String, Fault> {
    let same = |pairs: &mut dyn Iterator<Item = (&&str, &&str)>| {
        pairs.take_while(|(before, after)| before == after).count()
    };
    let head = same(&mut before.iter().zip(after));
    let tail = same(&mut before[head..].iter().rev().zip(after[head..].iter().rev()));
    let (raw_tail, after_tail) = (raw.len() - tail, after.len() - tail);
    let mut items: Vec<String> = raw[..head].iter().map(|item| (*item).to_owned()).collect();
    let (between, changed) = (&raw[head..raw_tail], &after[head..after_tail]);
    for (place, after) in changed.iter().enumerate() {
        let item = match between.get(place).filter(|_| between.len() == changed.len()) {
            Some(raw) => merged(raw, Some(before[head + place]), after)?,
            None => (*after).to_owned(),
        };
        items.push(item);
    }
    items.extend(raw[raw_tail..].iter().map(|item| (*item).to_owned()));
    Ok(format!("[{}]", items.join(",")))
}

fn written(object: &str) -> Result<WrittenJson, Fault> {
    let fields = RecordFields::of(object)?;
    Ok(fields.iter().map(|(name, raw)| (name.to_owned(), raw.to_owned())).collect())
}

fn items(list: &str) -> Result<Vec<&str>, Fault> {
    let items: Vec<&RawValue> =
        serde_json::from_str(list).map_err(|error| Fault::of(list, &error))?;
    Ok(items.into_iter().map(RawValue::get).collect())
}
