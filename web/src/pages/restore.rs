//! The plan of a restore, in words.

use std::sync::Arc;

use zk_curator_ops::files::TemporaryFile;
use zk_curator_ops::transfer::{SequenceHazard, TransferCounts};

use crate::problem::{Problem, RequestResult};
use crate::security::{Keys, Viewer};
use crate::show::{grouped, visible};
use crate::state::Web;
use crate::transfer::{
    ACLS, COUNTERS, ChoiceField, EPHEMERALS, EXISTING, PlannedRestore, ROOT, RestoreChoice,
    RestoreRefusal, RestoreTask, UploadOwner, problem_of, until_gone,
};

/// The nodes of a kind that a page names.
const NAMED: usize = 20;

/// A choice between several values, as radio buttons or a list.
#[derive(Debug)]
pub(super) struct ChoiceView {
    pub(super) name: &'static str,
    pub(super) label: &'static str,
    pub(super) values: Vec<ChoiceValue>,
}

#[derive(Debug)]
pub(super) struct ChoiceValue {
    pub(super) name: &'static str,
    pub(super) label: &'static str,
    pub(super) is_chosen: bool,
}

/// The plan of a restore.
#[derive(Debug)]
pub(super) struct PlanView {
    pub(super) sentence: String,
    pub(super) warning: String,
    pub(super) counts: Vec<PlanCount>,
    pub(super) changes: Vec<PlanChange>,
    pub(super) more: String,
    /// Sentences about dangers.
    pub(super) hazards: Vec<String>,
    pub(super) way: &'static str,
    /// The reason why it cannot be applied; empty otherwise.
    pub(super) refused: String,
    pub(super) is_nothing: bool,
    /// The question before an application.
    pub(super) question: String,
    pub(super) upload: String,
    pub(super) token: String,
    pub(super) fields: Vec<(&'static str, &'static str)>,
}

#[derive(Debug)]
pub(super) struct PlanCount {
    pub(super) sign: char,
    pub(super) number: String,
    pub(super) meaning: &'static str,
}

#[derive(Debug)]
pub(super) struct PlanChange {
    pub(super) sign: char,
    pub(super) meaning: &'static str,
    pub(super) path: String,
}

/// Plans the restore of a file.
pub(super) async fn plan_of(
    web: &Web,
    viewer: &Viewer,
    file: Arc<TemporaryFile>,
    choice: RestoreChoice,
    here: &str,
) -> RequestResult<PlannedRestore> {
    let (zk, redaction, here) = (web.zk.clone(), web.redaction.clone(), here.to_owned());
    let planned = until_gone(web.transfers_of(viewer), move || async move {
        let task = RestoreTask { zk: &zk, redaction: &redaction, file: &file, choice, here: &here };
        task.plan().await
    });
    planned.await?.map_err(problem_of_refusal)
}

pub(super) fn problem_of_refusal(refusal: RestoreRefusal) -> Problem {
    match refusal {
        RestoreRefusal::Failed(error) => problem_of(&error),
        RestoreRefusal::Hidden(path) => {
            let detail = format!(
                "The settings of this explorer treat the data of {} as a secret, so it cannot \
                 restore this file. `zkc restore` can.",
                visible(&path)
            );
            Problem::forbidden("Hidden data", detail)
        }
        RestoreRefusal::OtherPlan => Problem::usage("The plan has changed."),
    }
}

/// Returns the token that binds an application to a plan: its file, its choices, its user and every
/// change.
pub(super) fn token_of(
    keys: &Keys,
    upload: &str,
    owner: UploadOwner,
    choice: RestoreChoice,
    digest: &[u8; 32],
) -> String {
    let choice = choice.fields().map(|(_, value)| value).join(",");
    let parts = [upload.as_bytes(), b"\0", choice.as_bytes(), b"\0", owner.code(), digest];
    keys.token("plan", &parts.concat())
}

/// Returns the choices, with the chosen values.
pub(super) fn choice_views(choice: RestoreChoice) -> Vec<ChoiceView> {
    let fields = choice.fields();
    let chosen = |name: &str| {
        fields.iter().find(|(known, _)| *known == name).map_or("", |(_, value)| *value)
    };
    vec![
        choice_view(&ROOT, chosen(ROOT.name)),
        choice_view(&EXISTING, chosen(EXISTING.name)),
        choice_view(&EPHEMERALS, chosen(EPHEMERALS.name)),
        choice_view(&ACLS, chosen(ACLS.name)),
        choice_view(&COUNTERS, chosen(COUNTERS.name)),
    ]
}

fn choice_view<T>(field: &ChoiceField<T>, chosen: &str) -> ChoiceView {
    let value = |value: &(T, &'static str, &'static str)| ChoiceValue {
        name: value.1,
        label: value.2,
        is_chosen: value.1 == chosen,
    };
    let values = field.values.iter().map(value).collect();
    ChoiceView { name: field.name, label: field.label, values }
}

pub(super) fn plan_view(
    web: &Web,
    upload: &str,
    owner: UploadOwner,
    choice: RestoreChoice,
    plan: PlannedRestore,
) -> PlanView {
    let counts = &plan.counts;
    let (all, shown) = (plan.counts.nodes().saturating_sub(counts.same), plan.changes.len());
    let more = all.saturating_sub(u64::try_from(shown).unwrap_or(u64::MAX));
    let refused = plan.refused.as_ref().map(|problem| problem.detail.clone());
    PlanView {
        sentence: format!(
            "The file has {} nodes. They would be restored at {}.",
            grouped(plan.nodes),
            visible(&plan.root)
        ),
        warning: plan.warning.clone().unwrap_or_default(),
        counts: counts_of(counts),
        changes: plan
            .changes
            .iter()
            .map(|change| PlanChange {
                sign: shown_sign(change.sign),
                meaning: meaning_of(change.sign),
                path: visible(&change.path).into_owned(),
            })
            .collect(),
        more: if more == 0 { String::new() } else { format!("And {} more.", grouped(more)) },
        hazards: hazards_of(&plan, choice),
        way: if plan.is_atomic {
            "One transaction: all changes are applied, or none."
        } else {
            "Several transactions: if they are interrupted, the same restore applies the rest."
        },
        refused: refused.map(|text| visible(&text).into_owned()).unwrap_or_default(),
        is_nothing: counts.is_nothing(),
        question: question_of(counts),
        token: token_of(&web.keys, upload, owner, choice, &plan.digest),
        upload: upload.to_owned(),
        fields: choice.fields().into_iter().filter(|(_, value)| !value.is_empty()).collect(),
    }
}

fn counts_of(counts: &TransferCounts) -> Vec<PlanCount> {
    let TransferCounts { create, replace, same, keep, delete, skip, conflict, burn, .. } = counts;
    let count = |sign, number: &u64, meaning| (sign, *number, meaning);
    let all = [
        count('+', create, "created"),
        count('~', replace, "replaced"),
        count('=', same, "as in the file"),
        count('-', delete, "deleted"),
        count('!', skip, "ephemeral, left out"),
        count('≠', keep, "different, kept"),
        count('✕', conflict, "in conflict"),
        count('#', burn, "sequence numbers used up"),
    ];
    // The first five are always shown, so that the numbers are at the same place.
    all.into_iter()
        .enumerate()
        .filter(|(at, (_, number, _))| *at < 5 || *number > 0)
        .map(|(_, (sign, number, meaning))| PlanCount { sign, number: grouped(number), meaning })
        .collect()
}

const fn shown_sign(sign: char) -> char {
    match sign {
        'k' => '≠',
        'x' => '✕',
        sign => sign,
    }
}

const fn meaning_of(sign: char) -> &'static str {
    match sign {
        '+' => "create",
        '~' => "replace",
        '-' => "delete",
        '!' => "ephemeral, left out",
        'k' => "differs, kept",
        'x' => "differs: a conflict",
        _ => "",
    }
}

fn hazards_of(plan: &PlannedRestore, choice: RestoreChoice) -> Vec<String> {
    let mut hazards = Vec::new();
    for SequenceHazard { parent, next, highest, .. } in plan.hazards.iter().take(NAMED) {
        hazards.push(format!(
            "{} has, or gets, a child with the number {highest}, and ZooKeeper would give its next \
             sequential child the number {next}: it would sort before the others.",
            visible(parent)
        ));
    }
    for path in plan.contenders.iter().take(NAMED) {
        hazards.push(format!(
            "{} is the contender of a recipe. As a persistent node it would hold a lock, or be a \
             member of a group, until a user deletes it.",
            visible(path)
        ));
    }
    let left_out =
        plan.hazards.len().saturating_sub(NAMED) + plan.contenders.len().saturating_sub(NAMED);
    if left_out > 0 {
        hazards.push(format!("And {} more.", grouped(left_out)));
    }
    if choice.deletes_extra && plan.counts.delete > 0 {
        hazards.push(format!(
            "{} nodes below {} are not in the file, and are deleted.",
            grouped(plan.counts.delete),
            visible(&plan.root)
        ));
    }
    hazards
}

fn question_of(counts: &TransferCounts) -> String {
    let changes = grouped(counts.create + counts.replace);
    match counts.delete {
        0 => format!("Change {changes} nodes. This cannot be undone here."),
        delete => {
            let delete = grouped(delete);
            format!("Change {changes} nodes and delete {delete}. This cannot be undone here.")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::Fields;

    #[test]
    fn a_token_depends_on_everything() {
        let keys = Keys::random();
        let choice = RestoreChoice::of(&Fields::default());
        let other = RestoreChoice { deletes_extra: true, ..choice };
        let (ann, bob) = (owner("ann"), owner("bob"));
        let token = |upload: &str, owner, choice, digest| {
            token_of(&keys, upload, owner, choice, &[digest; 32])
        };
        let one = token("1", ann, choice, 7);
        assert_eq!(one, token("1", ann, choice, 7));
        for changed in [
            token("2", ann, choice, 7),
            token("1", bob, choice, 7),
            token("1", ann, other, 7),
            token("1", ann, choice, 8),
        ] {
            assert_ne!(one, changed);
        }
    }

    fn owner(user: &str) -> UploadOwner {
        use crate::security::Means;
        let viewer = Viewer {
            user: user.into(),
            means: Means::Cookie,
            peer: None,
            session: Some("s".to_owned()),
            csrf: String::new(),
            counted_as: String::new(),
        };
        UploadOwner::of(&keys(), &viewer).unwrap()
    }

    fn keys() -> Keys {
        Keys::random()
    }
}
