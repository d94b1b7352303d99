use std::fmt;
use std::marker::PhantomData;

use futures_util::stream::{Stream, unfold};
use zk_curator::value::FromData;

use super::cache::TypedCache;
use super::node::TypedNode;
use crate::cache::handle::events::CacheEvents;
use crate::cache::told::CacheEvent;

/// The changes of a typed cache, for one subscriber: those of [`CacheEvents`], with values.
///
/// A node whose data cannot be decoded is reported like every other, with its error as the value.
pub struct TypedEvents<T> {
    events: CacheEvents,
    value: PhantomData<fn() -> T>,
}

impl<T: FromData + Send + Sync + 'static> TypedCache<T> {
    /// Returns the changes, beginning with the loaded state.
    #[must_use = "streams do nothing unless polled"]
    pub fn events(&self) -> TypedEvents<T> {
        TypedEvents { events: self.cache().events(), value: PhantomData }
    }

    /// Returns the changes from now on, or from the end of the first load on.
    #[must_use = "streams do nothing unless polled"]
    pub fn events_from_now(&self) -> TypedEvents<T> {
        TypedEvents { events: self.cache().events_from_now(), value: PhantomData }
    }
}

impl<T: FromData + Send + Sync + 'static> TypedEvents<T> {
    /// Waits for the next event; `None` when the cache has ended and everything was reported.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn next(&mut self) -> Option<CacheEvent<TypedNode<T>>> {
        Some(self.events.next().await?.map(TypedNode::of))
    }

    /// Returns the events as a stream.
    ///
    /// # Cancel safety
    /// As [`next`](Self::next).
    pub fn into_stream(self) -> impl Stream<Item = CacheEvent<TypedNode<T>>> + Send + 'static {
        unfold(self, async |mut events| events.next().await.map(|event| (event, events)))
    }
}

impl<T> fmt::Debug for TypedEvents<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TypedEvents").field(&self.events).finish()
    }
}
