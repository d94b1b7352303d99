//! The watched paths of an explorer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use zk_curator::CuratorFramework;
use zk_curator::internal::{Locked, sleep};

use super::news::News;
use super::room::Room;
use super::shared::{MemoKey, SharedRead};
use crate::paths::parent_of;

/// The time for which a path is watched after its last viewer has left.
const LINGER: Duration = Duration::from_secs(60);

/// The watched paths: one recursive watch for each of them, whatever the number of its viewers.
#[derive(Debug)]
pub(crate) struct Hub {
    zk: CuratorFramework,
    most: usize,
    rooms: Locked<BTreeMap<String, Arc<Room>>>,
}

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
    pub(crate) fn view(self: &Arc<Self>, path: &str) -> Result<Viewing, NoRoom> {
        let (room, is_new) = self.enter(path)?;
        if is_new {
            let (hub, own) = (Arc::clone(self), Arc::clone(&room));
            let (then, ended) = (Arc::clone(self), Arc::clone(&room));
            // The end is also that of a task that panics, or whose runtime ends.
            self.zk.spawn_then(async move { hub.run(&own).await }, move |_| then.ended(&ended));
        }
        Ok(Viewing { room, told: None })
    }

    /// Takes a seat in the room of a path. Returns `true` if the room is new.
    fn enter(&self, path: &str) -> Result<(Arc<Room>, bool), NoRoom> {
        let mut rooms = self.rooms.lock();
        if let Some(room) = rooms.get(path) {
            room.seats.modify(|seats| seats.viewers += 1);
            return Ok((Arc::clone(room), false));
        }
        if rooms.len() >= self.most {
            let empty = rooms.values().find(|room| room.seats.look(|seats| seats.viewers == 0));
            let empty = empty.map(|room| room.path.clone()).ok_or(NoRoom)?;
            if let Some(room) = rooms.remove(&empty) {
                room.seats.modify(|seats| seats.is_evicted = true);
            }
        }
        let room = Arc::new(Room::new(path.to_owned()));
        room.seats.modify(|seats| seats.viewers = 1);
        rooms.insert(path.to_owned(), Arc::clone(&room));
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
        let room = self.rooms.lock().get(path).cloned();
        match room.filter(|room| room.is_fresh()) {
            Some(room) => room.memo.get(key, read).await,
            None => read().await,
        }
    }

    /// Forgets all shared reads, after this process has changed many nodes.
    pub(crate) fn forget_all(&self) {
        self.rooms.lock().values().for_each(|room| room.memo.forget());
    }

    /// Forgets the shared reads that show a node which this process has changed. So a user who is
    /// redirected after a change sees it.
    pub(crate) fn forget(&self, path: &str) {
        let rooms = self.rooms.lock();
        // A page shows a node, its children, and their numbers of children.
        let mut above = Some(path);
        for _ in 0..3 {
            let Some(shown) = above else { break };
            if let Some(room) = rooms.get(shown) {
                room.memo.forget();
            }
            above = parent_of(shown);
        }
    }
}

fn remove(rooms: &mut BTreeMap<String, Arc<Room>>, room: &Arc<Room>) {
    if rooms.get(&room.path).is_some_and(|present| Arc::ptr_eq(present, room)) {
        rooms.remove(&room.path);
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
