//! Prints who deleted a node, which service that was, and writes the deleted nodes to a backup.
//!
//! Run `cargo run -p zk-curator-ops --example who_deleted -- /var/lib/zookeeper /config` with the
//! data directory of a server, in place or copied. Without arguments, it says only this.
#![expect(clippy::print_stdout, reason = "an example talks to its terminal")]

use std::error::Error;

use zk_curator_ops::history::{Files, Index, Undelete};
use zk_curator_ops::text;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [directory, path] = arguments.as_slice() else {
        println!("usage: who_deleted DIRECTORY PATH");
        return Ok(());
    };
    let files = Files::find([directory])?;
    let index = Index::new(&files);
    let Some(deletion) = index.deletions(path)?.pop() else {
        println!("the logs contain no deletion of {path}");
        return Ok(());
    };
    let (change, nodes) = (&deletion.change, deletion.nodes);
    let when = text::rfc3339(change.at.time_ms).unwrap_or_default();
    println!("{when}: session {} deleted {nodes} nodes", change.session);
    if let Some(cause) = change.deletion {
        println!("cause: {cause}");
    }
    let author = index.author(change.session, change.at, 1000)?;
    for node in &author.ephemerals {
        println!("its node {}: {:?}", node.path, node.identity().address);
    }
    let recovered = Undelete::new(&files, path).find()?;
    let trailer = recovered.write("deleted.zkb")?;
    println!("wrote {} nodes to deleted.zkb", trailer.nodes());
    Ok(())
}
