//! The watched paths of an explorer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use zk_curator::CuratorFramework;
use zk_curator::internal::{Locked, sleep};

use super::news::News;
use super::room::Room;
use super::scope::Scope;
use super::shared::{MemoKey, SharedRead};
use crate::paths::parent_of;

/// The time for which a path is watched after its last viewer has left.
const LINGER: Duration = Duration::from_secs(60);

/// The levels above a node at which its recipe may be.
const ABOVE: usize = 4;

/// The watched paths: one recursive watch for each of them and each scope, whatever the number of
/// its viewers.
#[derive(Debug)]
pub(crate) struct Hub {
    zk: CuratorFramework,
    most: usize,
    rooms: Locked<Rooms>,
}

type Rooms = BTreeMap<(String, Scope), Arc<Room>>;

/// Too many paths are watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoRoom;

/// A viewer of a path. Dropping it ends the view.
#[derive(Debug)]
pub(crate) struct Viewing {
    room: Arc<Room>,
    told: Option<News>,
}

impl Hub {
    pub(crate) fn new(zk: CuratorFramework, most: usize) -> Arc<Self> {
        Arc::new(Self { zk, most, rooms: Locked::default() })
    }

    /// Returns the maximum number of watched paths.
    pub(crate) const fn most(&self) -> usize {
        self.most
    }

    /// Begins to view a path, which need not exist.
    pub(crate) fn view(self: &Arc<Self>, path: &str, scope: Scope) -> Result<Viewing, NoRoom> {
        let (room, is_new) = self.enter(path, scope)?;
        if is_new {
            let (hub, own) = (Arc::clone(self), Arc::clone(&room));
            let (then, ended) = (Arc::clone(self), Arc::clone(&room));
            // The end is also that of a task that panics, or whose runtime ends.
            self.zk.spawn_then(async move { hub.run(&own).await }, move |_| then.ended(&ended));
        }
        Ok(Viewing { room, told: None })
    }

    /// Takes a seat in the room of a path. Returns `true` if the room is new.
    fn enter(&self, path: &str, scope: Scope) -> Result<(Arc<Room>, bool), NoRoom> {
        let mut rooms = self.rooms.lock();
        let key = (path.to_owned(), scope);
        if let Some(room) = rooms.get(&key) {
            room.seats.modify(|seats| seats.viewers += 1);
            return Ok((Arc::clone(room), false));
        }
        if rooms.len() >= self.most {
            let empty = rooms.values().find(|room| room.seats.look(|seats| seats.viewers == 0));
            let empty = empty.map(|room| key_of(room)).ok_or(NoRoom)?;
            if let Some(room) = rooms.remove(&empty) {
                room.seats.modify(|seats| seats.is_evicted = true);
            }
        }
        let room = Arc::new(Room::new(path.to_owned(), scope));
        room.seats.modify(|seats| seats.viewers = 1);
        rooms.insert(key, Arc::clone(&room));
        Ok((room, true))
    }

    /// Follows a path until nobody views it, or the framework is closed.
    async fn run(&self, room: &Arc<Room>) {
        tokio::select! {
            () = room.follow(&self.zk) => {}
            () = self.abandoned(room) => {}
        }
    }

    /// Waits until a room has had no viewer for a while, and removes it.
    async fn abandoned(&self, room: &Arc<Room>) {
        loop {
            room.seats.find(|seats| (seats.viewers == 0).then_some(())).await;
            tokio::select! {
                () = sleep(LINGER) => {
                    let mut rooms = self.rooms.lock();
                    // No viewer enters while the rooms are locked.
                    if room.seats.look(|seats| seats.viewers == 0) {
                        remove(&mut rooms, room);
                        return;
                    }
                }
                is_evicted = room.seats.find(|seats| {
                    (seats.viewers > 0 || seats.is_evicted).then_some(seats.is_evicted)
                }) => if is_evicted {
                    return;
                }
            }
        }
    }

    fn ended(&self, room: &Arc<Room>) {
        remove(&mut self.rooms.lock(), room);
        room.news.modify(|news| news.is_over = true);
    }

    /// Returns the result of a read: that of another viewer, if the path is watched and has not
    /// changed since.
    pub(crate) async fn shared<E, F: Future<Output = Result<SharedRead, E>>>(
        &self,
        path: &str,
        key: MemoKey,
        read: impl FnOnce() -> F,
    ) -> Result<SharedRead, E> {
        match self.room_of(path, &key).filter(|room| room.is_fresh()) {
            Some(room) => room.memo.get(key, read).await,
            None => read().await,
        }
    }

    /// Forgets all shared reads, after this process has changed many nodes.
    pub(crate) fn forget_all(&self) {
        self.rooms.lock().values().for_each(|room| room.memo.forget());
    }

    /// Returns the room that forgets a read with every change that it shows.
    fn room_of(&self, path: &str, key: &MemoKey) -> Option<Arc<Room>> {
        let own = || self.room(path, Scope::Node);
        match key {
            MemoKey::Node(_) | MemoKey::Children(..) => own().or_else(|| self.recipe_room(path)),
            // Without the room of the recipe, the page follows its node.
            MemoKey::Card(_) => self.recipe_room(path).or_else(own),
            MemoKey::Why(_) => self.recipe_room(path),
            MemoKey::Recipes | MemoKey::Services => self.room(path, Scope::Subtree),
        }
    }

    /// Notes how long the read of a subtree took, which decides how often its viewers read it.
    pub(crate) fn paced(&self, path: &str, took: Duration) {
        if let Some(room) = self.room(path, Scope::Subtree) {
            room.paced(took);
        }
    }

    fn room(&self, path: &str, scope: Scope) -> Option<Arc<Room>> {
        self.rooms.lock().get(&(path.to_owned(), scope)).cloned()
    }

    /// Returns the room of the nearest viewed recipe at a node or above it.
    fn recipe_room(&self, path: &str) -> Option<Arc<Room>> {
        let mut at = path;
        for _ in 0..=ABOVE {
            if let Some(room) = self.room(at, Scope::Recipe) {
                return Some(room);
            }
            at = parent_of(at)?;
        }
        None
    }

    /// Forgets the shared reads that show a node which this process has changed. So a user who is
    /// redirected after a change sees it.
    pub(crate) fn forget(&self, path: &str) {
        for room in self.rooms.lock().values().filter(|room| room.scope.shows(&room.path, path)) {
            room.memo.forget();
        }
    }
}

fn key_of(room: &Room) -> (String, Scope) {
    (room.path.clone(), room.scope)
}

fn remove(rooms: &mut Rooms, room: &Arc<Room>) {
    let key = key_of(room);
    if rooms.get(&key).is_some_and(|present| Arc::ptr_eq(present, room)) {
        rooms.remove(&key);
    }
}

impl Viewing {
    /// Returns the present news at the first call, and then the latest after every change; `None`
    /// when the path is no longer watched.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(crate) async fn next(&mut self) -> Option<News> {
        let told = self.told;
        let news = self.room.news.find(|news| (told != Some(*news)).then_some(*news)).await;
        self.told = Some(news);
        (!news.is_over).then_some(news)
    }
}

impl Drop for Viewing {
    fn drop(&mut self) {
        self.room.seats.modify(|seats| seats.viewers = seats.viewers.saturating_sub(1));
    }
}
