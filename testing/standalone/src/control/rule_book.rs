//! [`RuleBook`]: the installed rules, by name.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use zk_curator_testing::{RuleGuard, RuleRequest, Verdict};

use super::message::{CallError, Code};
use super::rule::{RuleSpec, Times};
use super::target::Target;

/// An installed rule.
struct Installed {
    guard: RuleGuard,
    /// `true` from the time at which `after` and `times` are set until the removal. A waiter may
    /// keep the guard for a moment longer.
    armed: Arc<AtomicBool>,
    removed: watch::Sender<bool>,
}

impl Installed {
    fn end(&self) -> u64 {
        self.armed.store(false, Ordering::Release);
        self.removed.send_replace(true);
        self.guard.end();
        self.guard.hits()
    }
}

/// The rules that were installed by calls.
#[derive(Default)]
pub(super) struct RuleBook {
    rules: Mutex<BTreeMap<String, Arc<Installed>>>,
}

impl RuleBook {
    /// Installs a rule, and returns its name.
    pub(super) fn add(&self, target: &impl Target, spec: RuleSpec) -> Result<String, CallError> {
        let mut rules = self.lock();
        let name = match &spec.name {
            Some(name) if name.is_empty() => {
                return Err(CallError::new(Code::BadRequest, "add_rule: the name is empty"));
            }
            Some(name) if rules.contains_key(name) => {
                let text = format!("add_rule: there is a rule '{name}'");
                return Err(CallError::new(Code::BadRequest, text));
            }
            Some(name) => name.clone(),
            None => (1..)
                .map(|number: u64| format!("rule-{number}"))
                .find(|name| !rules.contains_key(name))
                .expect("invariant: there are more numbers than rules"),
        };
        let (member, after, times) = (spec.member, spec.after, spec.times);
        let armed = Arc::new(AtomicBool::new(false));
        let is_armed = Arc::clone(&armed);
        let decide = move |request: &RuleRequest<'_>| {
            if is_armed.load(Ordering::Acquire) { spec.judge(request) } else { Verdict::Pass }
        };
        let guard = target.install(member, Box::new(decide))?;
        let guard = guard.after(after).times(times.map_or(u64::MAX, Times::get));
        armed.store(true, Ordering::Release);
        let removed = watch::Sender::new(false);
        rules.insert(name.clone(), Arc::new(Installed { guard, armed, removed }));
        Ok(name)
    }

    /// Returns the number of times that a rule has fired.
    pub(super) fn hits(&self, call: &str, name: &str) -> Result<u64, CallError> {
        self.get(call, name).map(|rule| rule.guard.hits())
    }

    /// Removes a rule, and returns the number of times that it has fired.
    pub(super) fn remove(&self, name: &str) -> Result<u64, CallError> {
        let removed = self.lock().remove(name);
        removed.map(|rule| rule.end()).ok_or_else(|| no_such_rule("remove_rule", name))
    }

    /// Removes all rules.
    pub(super) fn clear(&self) {
        for rule in std::mem::take(&mut *self.lock()).into_values() {
            rule.end();
        }
    }

    /// Waits until a rule has fired at least `hits` times. Fails if it is removed before.
    pub(super) async fn fired(&self, name: &str, hits: u64) -> Result<(), CallError> {
        let rule = self.get("until", name)?;
        let mut removed = rule.removed.subscribe();
        tokio::select! {
            biased;
            () = rule.guard.fired_times(hits) => Ok(()),
            _ = removed.wait_for(|removed| *removed) => Err(no_such_rule("until", name)),
        }
    }

    /// Returns the hits of each rule, in one line.
    pub(super) fn summary(&self) -> String {
        let rules = self.lock();
        let hits = |(name, rule): (&String, &Arc<Installed>)| {
            format!("rule {name} has fired {} times", rule.guard.hits())
        };
        rules.iter().map(hits).collect::<Vec<_>>().join(", ")
    }

    fn get(&self, call: &str, name: &str) -> Result<Arc<Installed>, CallError> {
        self.lock().get(name).cloned().ok_or_else(|| no_such_rule(call, name))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Installed>>> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn no_such_rule(call: &str, name: &str) -> CallError {
    CallError::new(Code::NoSuchRule, format!("{call}: there is no rule '{name}'"))
}
