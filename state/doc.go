// Package state is the replicated state of a berth cluster: typed tables, the functions that read them and
// the functions by which the log changes them. The indexes of all tables are in one radix tree of go-memdb;
// their entries are slots, and a slot holds the current row.
//
// Its laws:
//
//   - A read function takes a *Read and opens no transaction, a write function takes a *Write and opens
//     none either: they compose. Who opens one is the Store.
//   - A row never changes once it is in a table. Read functions return the rows themselves, so a reader
//     copies what it wants to edit.
//   - A write function is deterministic: time, ids and chance come with its payload. Rows that are born
//     inside get ids derived from the log index. An error of it means that the entry changed nothing.
//   - Indexes of rows and of tables are stamped by the transaction, never by hand.
//   - What several rows say together (one writer, no claim without its volume, ...) is written down once
//     more as code that looks at a whole store: Check.
//
// It knows no network, no clock, no Raft and no log: fsm feeds it entries, endpoints ask it. Of the process it
// changes one setting, GOGC, while a snapshot is loaded.
package state
