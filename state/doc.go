// Package state is the replicated state of a berth cluster: the functions that read rows and the functions by
// which commands of the log change them. Package internal/mvcc stores the tables.
//
// Nodes, jobs, deployments, evaluations, allocations, plans, fencing, policies with roles, tokens and logins,
// admission rules, and the recovery from a snapshot are here. The packages below have the other nouns, and do
// not import this one:
//
//   - schema declares the tables and collects violated invariants, and sharing lets rows share memory.
//   - unblock has the queues of blocked evaluations, lease the leases of nodes and the check of callers,
//     namespace the namespaces with their quotas, and trust the authorities, certificates and root keys.
//   - csi has plugins, volumes with their classes, claims and attachments, and csi/snapshot has snapshots.
//
// The invariants of all of them:
//
//   - A read function takes a Reader and a write function takes a *WriteTx. Neither opens a transaction, so
//     functions compose. The Store opens transactions.
//   - A row never changes once it is in a table. Read functions return the rows themselves, so a caller
//     copies a row before it changes a field.
//   - A write function is deterministic: times, IDs and random values come with its payload, and IDs of new
//     rows derive from the log index. If it returns an error, the entry has changed nothing.
//   - Check holds in each state that commands can reach. It is the one list of the invariants between rows.
//
// The package knows no network, no clock, no process setting, no Raft and no log: fsm applies entries to it,
// endpoints read it.
package state
