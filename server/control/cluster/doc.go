// Package cluster has the loops of the leader that look after the cluster itself: the key of its authority
// (AuthorityKeyLoop), the keys that sign identities (SigningKeyLoop), plain secrets (SealLoop), tokens that
// have ended (TokenExpirer, ConsulTokenLoop), the first configuration of the scheduler
// (SchedulerConfigLoop) and the figures that the leader publishes (GaugeLoop). They propose entries, and
// call no node.
package cluster
