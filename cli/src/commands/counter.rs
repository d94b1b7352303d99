use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;
use zk_curator_recipes::counter::{DistributedAtomicLong, Encoding, Once};

use crate::app::App;
use crate::exit::{CommandFailure, Exit};
use crate::output::{CommandOutput, TextReport};
use crate::path;

/// The arguments of `zkc counter`.
#[derive(Debug, Args)]
pub(crate) struct CounterCommand {
    #[command(subcommand)]
    verb: CounterVerb,
    /// Form of the number in the node
    #[arg(long, value_enum, value_name = "FORM", default_value = "long", global = true)]
    form: CounterForm,
}

#[derive(Debug, Subcommand)]
enum CounterVerb {
    /// Print the number
    Get {
        /// Node
        #[arg(value_parser = path::parse)]
        path: String,
    },
    /// Add to the number, exactly once, and print it
    Add {
        /// Node; created with 0 if it does not exist
        #[arg(value_parser = path::parse)]
        path: String,
        /// Difference, which may be negative
        #[arg(default_value_t = 1, allow_negative_numbers = true)]
        delta: i64,
        /// Id of this change: it is made once, however often the command is repeated
        #[arg(long, value_name = "ID")]
        once: Option<String>,
    },
    /// Replace the number
    Set {
        /// Node; created if it does not exist
        #[arg(value_parser = path::parse)]
        path: String,
        /// New number
        #[arg(allow_negative_numbers = true)]
        number: i64,
        /// Only if the number is this one
        #[arg(long, value_name = "N", allow_negative_numbers = true)]
        expect: Option<i64>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CounterForm {
    /// 8 bytes: DistributedAtomicLong
    Long,
    /// 4 bytes: DistributedAtomicInteger and SharedCount
    Integer,
    /// Decimal digits: kazoo's Counter
    Text,
}

impl CounterCommand {
    pub(crate) async fn run(self, app: &App) -> Result<CommandOutput, CommandFailure> {
        let encoding = match self.form {
            CounterForm::Long => Encoding::I64Be,
            CounterForm::Integer => Encoding::I32Be,
            CounterForm::Text => Encoding::Text,
        };
        let counter =
            |zk, path: &str| DistributedAtomicLong::builder(zk, path).encoding(encoding).build();
        let number = match self.verb {
            CounterVerb::Get { path } => counter(app.zk().await?, &path).get().await?,
            CounterVerb::Add { path, delta, once } => {
                let counter = counter(app.zk_to_change().await?, &path);
                match once {
                    None => counter.add(delta).await?.post,
                    Some(id) => match counter.add_once(id, delta).await? {
                        Once::Applied(change) | Once::Before(change) => change.post,
                    },
                }
            }
            CounterVerb::Set { path, number, expect } => {
                let counter = counter(app.zk_to_change().await?, &path);
                match expect {
                    None => {
                        counter.set(number).await?;
                    }
                    Some(expected) => {
                        counter.compare_and_set(expected, number).await?.map_err(|other| {
                            CommandFailure::new(Exit::CONFLICT, format!("other number: {other}"))
                        })?;
                    }
                }
                number
            }
        };
        Ok(TextReport::new(number.to_string(), json!(number)).names([number.to_string()]).into())
    }
}
