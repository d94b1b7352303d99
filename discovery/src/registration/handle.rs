//! The handle of a registration.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{Stream, unfold};
use serde::de::DeserializeOwned;
use tokio::sync::oneshot;
use tokio::time::Instant;
use zk_curator::internal::{Setbacks, Signal};
use zk_curator::op::Authorship;
use zk_curator::{ConnectionState, CreateMode, CuratorFramework, Error};

use super::driver::RegistrationDriver;
use super::error::{RegistrationError, Result};
use super::gate::{Keeper, Move, moved};
use super::machine::{RegistrationMachine, RegistrationRules};
use super::shared::{RecordChange, RecordEdit, RegistrationShared, RequestedEnd};
use super::state::{Gate, OnConflict, OnDeleted, RegistrationState};
use crate::config::RecordFormat;
use crate::instance::{ServiceInstance, ServiceType};
use crate::json::{WrittenJson, is_enabled, read, updated, with_enabled};

/// An instance that is registered, until this guard is dropped. See the [module](super).
///
/// # Cancel safety
/// Dropping it deletes the node of a dynamic instance in the background. Static and permanent
/// instances stay.
#[must_use = "dropping it unregisters the instance in the background"]
pub struct Registration<P> {
    zk: CuratorFramework,
    shared: Arc<Signal<RegistrationShared>>,
    format: RecordFormat,
    id: String,
    name: String,
    is_dynamic: bool,
    payload: PhantomData<fn() -> P>,
}

/// The settings of a registration.
pub(crate) struct RegistrationPlan<P> {
    pub(crate) zk: CuratorFramework,
    pub(crate) path: String,
    pub(crate) instance: ServiceInstance<P>,
    pub(crate) record: Bytes,
    pub(crate) format: RecordFormat,
    pub(crate) on_conflict: OnConflict,
    pub(crate) on_deleted: OnDeleted,
}

impl<P: DeserializeOwned + serde::Serialize + Send + 'static> Registration<P> {
    /// Starts the task.
    pub(crate) fn start(plan: RegistrationPlan<P>) -> Self {
        let RegistrationPlan { zk, path, instance, record, format, on_conflict, on_deleted } = plan;
        let ServiceInstance { name, id, service_type, .. } = instance;
        let is_dynamic = service_type.is_dynamic();
        let mode = match service_type {
            ServiceType::Dynamic => CreateMode::Ephemeral,
            ServiceType::DynamicSequential => CreateMode::EphemeralSequential,
            _ => CreateMode::Persistent,
        };
        let shared = Arc::new(Signal::new(RegistrationShared::new(path.clone(), &zk)));
        let driver = RegistrationDriver {
            zk: zk.clone(),
            path,
            mode,
            machine: RegistrationMachine::new(RegistrationRules {
                is_dynamic,
                on_conflict,
                on_deleted,
            }),
            shared: Arc::clone(&shared),
            author: Authorship::default(),
            sent: None,
            record,
            gate: Gate::default(),
            since: Instant::now(),
            setbacks: Setbacks::default(),
            occupied: None,
            watch: None,
        };
        let ending = Arc::clone(&shared);
        // This runs even if the runtime is shut down.
        zk.spawn_then(driver.run(), move |end| {
            drop(ending.modify(|shared| {
                shared.is_aborted = end.is_err();
                shared.end(false)
            }));
        });
        Self { zk, shared, format, id, name, is_dynamic, payload: PhantomData }
    }

    /// Changes the record, and waits until the ensemble has the change. Waits first until the
    /// instance is registered, if it is not.
    ///
    /// `edit` changes the current record. This includes what other clients have written into it: an
    /// operator may have set `enabled` to `false`, for example. `edit` is called again if another
    /// client writes at the same time. It cannot change the name, the id or the kind.
    ///
    /// Only what `edit` changes is written. The rest of the record stays as it is, also what `P`
    /// does not know: further fields, the digits of a number, and the order.
    ///
    /// # Errors
    /// * `Superseded`, `Deleted`, `Ended`: the registration has ended.
    /// * `Framework` with `InvalidArgument` if `edit` changes the name, the id or the kind, with
    ///   `Undecodable` if another client has written a payload that `P` cannot read, or if the new
    ///   record cannot be written, or with another permanent error such as `NoAuth` or `TooLarge`:
    ///   nothing was changed.
    /// * `Framework` with an error that [may have been applied](Error::may_have_applied): the
    ///   response was lost, other clients have written since, and `edit` would change their record
    ///   again.
    /// * `Write`: the instance has no record.
    ///
    /// # Cancel safety
    /// Once this was polled, the change is written even if the future is dropped.
    pub async fn update(
        &mut self,
        mut edit: impl FnMut(&mut ServiceInstance<P>) + Send + 'static,
    ) -> Result<()> {
        let record = self.record();
        let edit = Box::new(move |present: &Bytes, gate: Gate| {
            let mut instance = record.read::<P>(present)?;
            let before = record.fields(&instance)?;
            let fixed = (instance.name.clone(), instance.id.clone(), instance.service_type.clone());
            let mut enabled = instance.enabled;
            let gate = gate.through(&mut enabled, |enabled| {
                instance.enabled = *enabled;
                edit(&mut instance);
                *enabled = instance.enabled;
            });
            instance.enabled = enabled;
            if fixed != (instance.name.clone(), instance.id.clone(), instance.service_type.clone())
            {
                let why = "name, id and kind of an instance cannot be changed";
                return Err(Error::invalid_argument("update", record.path.as_str(), why));
            }
            Ok((record.updated::<P>(present, &before, &record.fields(&instance)?)?, gate))
        });
        self.change(edit, |change| change.is_repeatable = false).await
    }

    /// Takes the instance out of traffic: sets `enabled` to `false`, and waits until the ensemble
    /// has the change. The instance stays registered. The rest of the record is neither read nor
    /// changed.
    ///
    /// # Errors
    /// As [`update`](Self::update). After a lost response it is repeated.
    ///
    /// # Cancel safety
    /// Once this was polled, the change is written even if the future is dropped.
    pub async fn drain(&mut self) -> Result<()> {
        self.set_enabled(false).await
    }

    /// Puts the instance back into traffic: sets `enabled` to `true`.
    ///
    /// # Errors
    /// As [`drain`](Self::drain).
    ///
    /// # Cancel safety
    /// Once this was polled, the change is written even if the future is dropped.
    pub async fn resume(&mut self) -> Result<()> {
        self.set_enabled(true).await
    }

    /// Writes the unchanged record again, which renews the modification time of the node. Programs
    /// that purge old static instances rely on it.
    ///
    /// # Errors
    /// As [`drain`](Self::drain).
    ///
    /// # Cancel safety
    /// Once this was polled, the record is written even if the future is dropped.
    pub async fn touch(&mut self) -> Result<()> {
        let same = Box::new(|present: &Bytes, gate| Ok((present.clone(), gate)));
        self.change(same, |change| change.is_forced = true).await
    }

    /// Takes the instance out of traffic while a check in this process fails, and puts it back when
    /// the check passes. The instance stays registered. The check runs in the background until the
    /// registration ends: immediately, and then again `every` after each result. A registration has
    /// one gate; another call replaces its check.
    ///
    /// A check fails if it returns `false`, or takes longer than `every`. Values of `every` below
    /// 10 milliseconds count as 10 milliseconds. A single failure closes the gate: a check that
    /// should tolerate some has to count them.
    ///
    /// **The instance is in traffic while the check passes and you want it to be.** [`drain`],
    /// [`resume`] and [`update`] set what you want, and do not see the gate. So an instance that
    /// you have drained stays drained when the check passes. An instance that you resume while the
    /// check fails is back in traffic when the check passes. An operator who sets `enabled` to
    /// `true` in the record overrides the gate until the check fails again. If an operator sets
    /// `enabled` to `false` while the gate is closed, the gate cannot distinguish this from its own
    /// write, and reverts it when the check passes.
    ///
    /// Without a connection, only the latest result is written, when the connection is back. A
    /// write that fails permanently, with `NoAuth` for example, is reported as a [background
    /// error](zk_curator::CuratorFramework::background_errors) and repeated after growing pauses. A
    /// check that panics has failed; the first panic is reported in the same way.
    ///
    /// [`drain`]: Self::drain
    /// [`resume`]: Self::resume
    /// [`update`]: Self::update
    ///
    /// # Panics
    /// Outside a tokio runtime, if the framework has no spawner.
    ///
    /// # Example
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = zk_curator_testing::TestServer::start().await;
    /// # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
    /// # zk.start().await?;
    /// # use zk_curator_discovery::{ServiceDiscovery, ServiceInstance};
    /// # async fn database_answers() -> bool { true }
    /// use std::time::Duration;
    ///
    /// # let discovery = ServiceDiscovery::<()>::new(&zk, "/services");
    /// # let orders = ServiceInstance::builder("orders").build()?;
    /// let mut me = discovery.register(orders).await?;
    /// me.gate(Duration::from_secs(5), || async { database_answers().await });
    /// assert!(!me.is_gated());
    /// # Ok(()) }
    /// ```
    pub fn gate<C: Future<Output = bool> + Send + 'static>(
        &mut self,
        every: Duration,
        check: impl FnMut() -> C + Send + 'static,
    ) {
        let gate = self.shared.modify(|shared| {
            shared.gates += 1;
            shared.gates
        });
        let (zk, shared) = (self.zk.clone(), Arc::clone(&self.shared));
        let keeper = Keeper { zk, shared, gate, every, edit: self.moves() };
        self.zk.spawn(keeper.run(check));
    }

    /// Removes the gate. If it keeps the instance out of traffic, waits until the instance is back,
    /// unless you have drained it.
    ///
    /// # Errors
    /// As [`drain`](Self::drain).
    ///
    /// # Cancel safety
    /// Once this was polled, the change is written even if the future is dropped.
    pub async fn ungate(&mut self) -> Result<()> {
        let (change, result) = moved(&self.moves(), true);
        drop(self.shared.modify(|shared| {
            shared.gates += 1;
            shared.queue(change)
        }));
        self.changed(result).await
    }

    /// Returns the edits that open and close the gate.
    fn moves(&self) -> Move {
        let record = self.record();
        Box::new(move |opens| {
            let record = record.clone();
            Box::new(move |present, gate| {
                record.edit_enabled(present, |enabled| {
                    if opens { gate.open(enabled) } else { gate.close(enabled) }
                })
            })
        })
    }

    fn record(&self) -> InstanceRecords {
        let (format, name, id) = (self.format.clone(), self.name.clone(), self.id.clone());
        InstanceRecords { format, name, id, path: self.path() }
    }

    async fn set_enabled(&self, wanted: bool) -> Result<()> {
        let record = self.record();
        let edit = Box::new(move |present: &Bytes, gate: Gate| {
            record
                .edit_enabled(present, |enabled| gate.through(enabled, |enabled| *enabled = wanted))
        });
        self.change(edit, |_| {}).await
    }

    async fn change(&self, edit: RecordEdit, with: impl FnOnce(&mut RecordChange)) -> Result<()> {
        let (done, result) = oneshot::channel();
        let mut change = RecordChange::repeatable(edit, done);
        with(&mut change);
        drop(self.shared.modify(|shared| shared.queue(change)));
        self.changed(result).await
    }

    async fn changed(&self, result: oneshot::Receiver<Result<(), Error>>) -> Result<()> {
        match result.await {
            Ok(result) => result.map_err(RegistrationError::Framework),
            Err(_) => Err(self.ended()),
        }
    }
}

/// Reads and writes the records of an instance.
#[derive(Clone)]
struct InstanceRecords {
    format: RecordFormat,
    name: String,
    id: String,
    path: String,
}

impl InstanceRecords {
    fn read<P: DeserializeOwned>(&self, data: &[u8]) -> Result<ServiceInstance<P>, Error> {
        read(data, &self.name, &self.id).map_err(|why| self.undecodable(why))
    }

    fn fields<P: serde::Serialize>(
        &self,
        instance: &ServiceInstance<P>,
    ) -> Result<WrittenJson, Error> {
        self.format.fields(instance).map_err(|why| self.undecodable(why))
    }

    /// Returns the record `present` with the difference between two states of the instance.
    fn updated<P: DeserializeOwned + serde::Serialize>(
        &self,
        present: &Bytes,
        before: &WrittenJson,
        after: &WrittenJson,
    ) -> Result<Bytes, Error> {
        let read = |data: &[u8]| self.fields(&self.read::<P>(data).ok()?).ok();
        updated(present, before, after, read).map_err(|why| self.undecodable(why))
    }

    /// Changes `enabled` and nothing else. The rest of the record is not read.
    fn edit_enabled(
        &self,
        present: &Bytes,
        edit: impl FnOnce(&mut bool) -> Gate,
    ) -> Result<(Bytes, Gate), Error> {
        let before = is_enabled(present).map_err(|why| self.undecodable(why))?;
        let mut enabled = before;
        let gate = edit(&mut enabled);
        let record = if before == enabled {
            present.clone()
        } else {
            let edited = with_enabled(present, enabled, self.format.mode);
            edited.map_err(|why| self.undecodable(why))?
        };
        Ok((record, gate))
    }

    fn undecodable(&self, why: impl std::error::Error + Send + Sync + 'static) -> Error {
        Error::undecodable("update", self.path.as_str(), Arc::new(why))
    }
}

impl<P> Registration<P> {
    /// Returns the name of the service.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the id of the instance, without the number of a sequential one.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the path of the node; with the number of a sequential one, once it is registered.
    #[must_use]
    pub fn path(&self) -> String {
        self.shared.look(|shared| shared.path.clone())
    }

    /// Returns `true` while the node exists, as far as this client knows. Stays `true` while the
    /// connection is suspended.
    #[must_use]
    pub fn is_registered(&self) -> bool {
        let session = self.zk.status();
        let session = Some(session)
            .filter(|status| status.state != ConnectionState::Lost)
            .and_then(|status| status.session)
            .map(|session| session.id);
        self.shared.look(|shared| {
            // The session of a dynamic instance may be over, and the task still be at work.
            let is_over = self.is_dynamic
                && matches!(shared.state, RegistrationState::Registered { session: held } if Some(held) != session);
            shared.is_registered() && shared.ending.is_none() && !is_over
        })
    }

    /// Returns `true` while a [gate](Self::gate) keeps the instance out of traffic.
    #[must_use]
    pub fn is_gated(&self) -> bool {
        self.shared.look(|shared| shared.is_gated)
    }

    /// Returns the current state.
    #[must_use]
    pub fn state(&self) -> RegistrationState {
        self.shared.look(|shared| shared.state.clone())
    }

    /// Follows the state, beginning with the current one.
    pub fn events(&self) -> RegistrationEvents {
        RegistrationEvents { shared: Arc::clone(&self.shared), seen: None }
    }

    /// Waits until the instance is registered.
    ///
    /// # Errors
    /// `Framework` with a permanent error, such as `NoAuth`: the task keeps retrying. `Superseded`,
    /// `Refused`, `Deleted` or `Ended`: the registration has ended.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn registered(&self) -> Result<()> {
        let found = self.shared.find(|shared| match &shared.state {
            _ if shared.has_ended => Some(None),
            RegistrationState::Registered { .. } => Some(Some(Ok(()))),
            RegistrationState::Failed(error) => Some(Some(Err(error.clone().into()))),
            _ => None,
        });
        found.await.unwrap_or_else(|| Err(self.ended()))
    }

    /// Deletes the node, also of a static or permanent instance, and waits until it is deleted. May
    /// be called again.
    ///
    /// # Errors
    /// `Framework` if an attempt to delete the node fails, so that the node may still exist. The
    /// task keeps retrying, and another call waits for it. `Ended` if the framework or the session
    /// of its handle has ended first: the node of a static or permanent instance still exists.
    /// Succeeds without a delete if another process has taken the place of the instance.
    ///
    /// # Cancel safety
    /// Once this was polled, the node is deleted even if the future is dropped.
    pub async fn unregister(&mut self) -> Result<()> {
        let failures = self.shared.modify(|shared| {
            shared.ending = Some(RequestedEnd { deletes: true });
            shared.failures
        });
        let ended = self.shared.find(|shared| {
            let failed = || shared.failure.clone().filter(|_| shared.failures > failures);
            match shared.state {
                _ if !shared.has_ended => failed().map(|error| Err(error.into())),
                RegistrationState::Superseded { .. } | RegistrationState::Refused { .. } => {
                    Some(Ok(()))
                }
                _ if shared.is_deleted || self.is_dynamic && !shared.is_aborted => Some(Ok(())),
                _ => Some(Err(RegistrationError::Ended { path: shared.path.clone() })),
            }
        });
        ended.await
    }

    /// Returns the reason why the registration has ended.
    fn ended(&self) -> RegistrationError {
        self.shared.look(|shared| {
            let path = &shared.path;
            let ended = || RegistrationError::Ended { path: path.clone() };
            shared.state.error(path).unwrap_or_else(ended)
        })
    }
}

impl<P> Drop for Registration<P> {
    fn drop(&mut self) {
        let deletes = self.is_dynamic;
        self.shared.modify(|shared| {
            shared.ending.get_or_insert(RequestedEnd { deletes });
        });
    }
}

impl<P> fmt::Debug for Registration<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration")
            .field("path", &self.path())
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}

/// Follows the [`RegistrationState`] of a [`Registration`].
///
/// A slow reader may miss intermediate states, but never the latest. Ends with the registration.
pub struct RegistrationEvents {
    shared: Arc<Signal<RegistrationShared>>,
    seen: Option<u64>,
}

impl RegistrationEvents {
    /// Returns the current state at the first call, and then the latest state after each change;
    /// `None` after the end.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn next(&mut self) -> Option<RegistrationState> {
        let seen = self.seen;
        let (changed, state) = self
            .shared
            .find(|shared| {
                if seen != Some(shared.changed) {
                    return Some(Some((shared.changed, shared.state.clone())));
                }
                shared.has_ended.then_some(None)
            })
            .await?;
        self.seen = Some(changed);
        Some(state)
    }

    /// Returns the states as a stream.
    pub fn into_stream(self) -> impl Stream<Item = RegistrationState> + Send + 'static {
        unfold(self, async |mut events| events.next().await.map(|state| (state, events)))
    }
}

impl fmt::Debug for RegistrationEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegistrationEvents").field("seen", &self.seen).finish_non_exhaustive()
    }
}
