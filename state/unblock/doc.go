// Package unblock keeps the queues of blocked evaluations: it makes evaluations pending again when a key
// that they wait for is unblocked, a few queues at once and the others in later entries. It also records the
// nodes on which capacity was freed.
//
// It decides nothing on the work of an evaluation. Package state puts evaluations and ends them.
package unblock
