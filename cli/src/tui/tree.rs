//! The screen of the tree: the children of one node.

use zk_curator::Stat;

use super::table::{CellValue, Table, TableColumn, left, right};
use crate::node;
use crate::output::time;

/// A child of the listed node.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Child {
    pub(crate) name: String,
    pub(crate) stat: Stat,
}

/// The listed node.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ListedTreeNode {
    pub(crate) path: String,
    children: Vec<Child>,
    /// Why there is no list, or what it leaves out.
    trouble: Option<String>,
}

impl Default for ListedTreeNode {
    fn default() -> Self {
        Self { path: "/".to_owned(), children: Vec::new(), trouble: None }
    }
}

pub(crate) const COLUMNS: &[TableColumn] = &[
    left("NAME", 0),
    left("KIND", 10),
    right("CHILDREN", 9),
    right("SIZE", 10),
    right("VERSION", 8),
    left("MODIFIED", 19),
    left("OWNER", 18),
];

impl ListedTreeNode {
    /// Shows another node, whose children are not known yet.
    pub(crate) fn enter(&mut self, path: String) {
        *self = Self { path, ..Self::default() };
    }

    /// Takes the children of a node, unless another one is shown by now.
    pub(crate) fn listed(&mut self, path: &str, answer: Result<(Vec<Child>, usize), String>) {
        if path != self.path {
            return;
        }
        match answer {
            Ok((children, more)) => {
                let hidden = (more > 0).then(|| format!("{more} further children are not shown"));
                (self.children, self.trouble) = (children, hidden);
            }
            Err(trouble) => (self.children, self.trouble) = (Vec::new(), Some(trouble)),
        }
    }

    /// Returns `true` if the child has no children.
    pub(crate) fn is_leaf(&self, name: &str) -> bool {
        let child = self.children.iter().find(|child| child.name == name);
        child.is_some_and(|child| child.stat.num_children == 0)
    }

    pub(crate) fn table(&self) -> Table {
        let mut table = Table::new(COLUMNS);
        for Child { name, stat } in &self.children {
            let count = |number: i32| CellValue::from(u64::try_from(number).unwrap_or_default());
            let size = u64::try_from(stat.data_length).unwrap_or_default();
            table.push(
                name.as_str(),
                vec![
                    name.as_str().into(),
                    node::kind(stat).into(),
                    count(stat.num_children),
                    #[expect(clippy::cast_precision_loss, reason = "only the order depends on it")]
                    CellValue::Number(size as f64, time::size(size)),
                    count(stat.version),
                    time::rfc3339(stat.mtime)
                        .map(|text| text.replace(['T', 'Z'], " ").trim().to_owned())
                        .into(),
                    node::owner(stat).into(),
                ],
            );
        }
        table.note.clone_from(&self.trouble);
        table
    }
}
