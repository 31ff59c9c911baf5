// Package server is one member of the cluster: Raft with its log and snapshots on disk, the state store it
// feeds, the gossip by which servers find each other, the port that serves Raft and remote procedures, and
// the loops that run while this server leads.
//
// Its rules:
//
//   - Only Raft writes to the state store.
//   - A leader acts only in loops. They end, and are waited for, when leadership ends.
//   - Run returns after every goroutine of the server has ended.
//
// Package endpoints serves the requests, server/control has the loops of the leader, server/nodeconn calls
// the nodes, and fsm and state apply the log entries.
package server
