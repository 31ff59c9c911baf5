// Package mvcc is an in-memory table store with snapshots, for one writer and any number of readers.
//
// # Purpose
//
// A program declares a [Schema] of typed tables and opens a [DB] with it. A [Table] has a key and any number
// of indexes ([Index]). A writer applies the entries of a replicated log in a [Batch]. A reader gets a
// [ReadTx], which is a consistent snapshot, and waits for changes of the rows that it has read ([DB.Wait]). A
// [Subscription] receives the keys of changed rows. [DB.Save] and [DB.Load] write and read snapshot files.
//
// # Layers
//
// Tables and indexes compute keys. Each has a table of go-memdb, which is a radix tree. An overlay holds the
// changes of a batch until they are written into the trees. A tree maps each key of a row to its slot, and a
// persistent vector maps slots to rows (rowVector). So a change of a row that changes none of its keys
// leaves the trees as they are. A list index has one key in its tree for a list of slots ([Table.ListIndex]).
// Watches and subscriptions get the keys that a commit has changed. Snapshot files consist of pieces
// ([PieceWriter]): values and chunks of rows.
//
// [OrderedPool], [MergeSorted] and [InternValue] serve the tables and those who fill and read them: work in
// parallel without a loss of order, one sorted sequence of several, and equal values that share memory.
//
// # Invariants
//
//   - A row never changes after Put. Readers get the rows themselves, so they copy the rows that they edit.
//   - A snapshot never changes.
//   - Each entry of a batch takes effect as a whole or not at all, and readers see a batch as a whole.
//   - Put stamps the row with the log index, and a commit stamps each table that it changed.
//   - The content of a database depends on the applied entries only, not on batches or times. Equal databases
//     have equal snapshot files.
//   - A reader in Wait is notified of each change of the rows and ranges that it has read. It is notified of
//     no other change unless it has more than 1,024 watch points or begins to wait late.
//
// # Non-goals
//
// The package has no durability: the log and the snapshot files provide it. It has no concurrent writers, no
// joins and no queries over several tables. It knows no row type, no clock and no network.
package mvcc
