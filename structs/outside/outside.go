// Package outside has the names for services outside of the cluster in which a workload logs in with its
// identity: Vault and Consul.
package outside

import "berth/structs"

// The variables of a task with a token.
const (
	VaultToken     = "VAULT_TOKEN"
	VaultNamespace = "VAULT_NAMESPACE"
	ConsulToken    = "CONSUL_TOKEN"

	ConsulProgramToken = "CONSUL_HTTP_TOKEN" // the name that Consul's own programs read
)

// The identities with which a task logs in: names in the list of its identities.
const (
	VaultIdentity  = "vault_default"
	ConsulIdentity = "consul_default"
)

// DefaultCluster is the name of the only Vault and the only Consul of a node.
const DefaultCluster = "default"

// HasEnv reports whether the task has the token of Vault as a variable.
func HasEnv(v *structs.Vault) bool { return v.Env == nil || *v.Env }
