// Package login logs the workloads of a node in at Vault and Consul, with their identities. A Keeper has
// the tokens: it renews each of them, logs in again when a renewal fails, and revokes it when its workload
// has ended. The hooks give tokens to tasks, and the sources answer the questions of templates with them.
//
// A token is in memory, and in the secrets of its task, which are in memory, too: an agent that starts again
// finds it there, and goes on with it or revokes it. A token that no agent finds, for example after a loss
// of power, ends by its time to live.
package login
