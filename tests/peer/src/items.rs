//! Reads the parts of a client's operation, as the contract defines them.
//!
//! Rule: an operation that is not valid is reported before anything is sent.

use std::borrow::Cow;

use antiphon::Json;

/// One entry of a batch, or of calls side by side.
#[derive(Debug)]
pub struct Item<'a> {
    /// The method.
    pub method: Cow<'a, str>,
    /// The params, if any.
    pub params: Option<Json<'a>>,
    /// Whether no answer is wanted.
    pub is_notification: bool,
}

/// Reads the entries of an operation.
///
/// # Errors
/// What is wrong with the first one that makes no sense.
pub fn items_of(items: Json<'_>) -> Result<Vec<Item<'_>>, &'static str> {
    items.elements().map(item_of).collect()
}

fn item_of(item: Json<'_>) -> Result<Item<'_>, &'static str> {
    let method = item.get("method").and_then(Json::as_string);
    Ok(Item {
        method: method.ok_or("an item without method")?.to_cow_lossy(),
        params: params_of(item),
        is_notification: match item.get("notify").map(Json::as_str) {
            None | Some("false" | "null") => false,
            Some("true") => true,
            Some(_) => return Err("notify must be true or false"),
        },
    })
}

/// A null stands for none: some drivers cannot leave a member out.
pub fn params_of(operation: Json<'_>) -> Option<Json<'_>> {
    operation.get("params").filter(|params| !params.is_null())
}
