// Package raftfiles keeps the files of a server's Raft: the log, the stable values (term and vote), the
// snapshots, the server's ID and the log-end mark. Each of them has a checksum.
//
// Open reads all of them before Raft does. If one of them is missing or changed, it returns an error with the
// file and the remedy, so a server never starts with another state than at its last stop. A log entry and a
// snapshot are checked again at each reading.
//
// The log-end mark (file log-end) is outside the directory of Raft. It records the index of the last durable
// entry. It shows Open whether a write was interrupted by a power cut, which Open drops, or whether a file is
// damaged or missing, which Open rejects. It also has the level of the version that wrote the files (ADR 52):
// Open rejects files of a newer version, and files without a level.
//
// Raft calls the log from several goroutines. Log.ends orders the changes at its two ends, so that the log
// and the mark change together. Reads need no lock.
package raftfiles
