// Package raftnet carries Raft's messages between servers: its share of the port, and a transport that notes
// when the requests were sent that followers have answered.
package raftnet
