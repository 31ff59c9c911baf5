// Package server is one member of the cluster: Raft with its log and snapshots on disk, the state store it
// feeds, the gossip by which servers find each other, the port that serves Raft and remote procedures, and
// the loops that run while this server leads.
//
// Its laws: nothing is in the state store that Raft did not put there; what a leader does it does in loops
// that end, and are waited for, when leadership ends; Run returns when every goroutine of the server has.
//
// What a request means is left to endpoints, what the leader does to server/control, calls to nodes to
// server/nodeconn, what an entry does to fsm and state.
package server
