package structs

// Vault is a task's `vault {}`: the node logs in with the identity of the task, and keeps the token alive.
type Vault struct {
	Role      string `json:",omitempty" codec:",omitempty"` // "": the node's, or the auth method's
	Namespace string `json:",omitempty" codec:",omitempty"` // of Vault; "": the node's
	Cluster   string `json:",omitempty" codec:",omitempty"` // DefaultLoginCluster
	Env       *bool  `json:",omitempty" codec:",omitempty"` // as a variable; nil is true

	DisableFile  bool   `json:",omitempty" codec:",omitempty"` // the task has it in no file
	ChangeMode   string `json:",omitempty" codec:",omitempty"` // noop, restart or signal
	ChangeSignal string `json:",omitempty" codec:",omitempty"`
	// The token ends while the task runs: the node does not renew it.
	AllowTokenExpiration bool `json:",omitempty" codec:",omitempty"`
}

// Consul is a `consul {}` of a group or a task: the task logs in at Consul with its identity for it.
type Consul struct {
	Namespace string `json:",omitempty" codec:",omitempty"` // of Consul Enterprise, without effect
	Cluster   string `json:",omitempty" codec:",omitempty"` // DefaultLoginCluster
}

// The variables of a task with a token.
const (
	VaultTokenEnv     = "VAULT_TOKEN"
	VaultNamespaceEnv = "VAULT_NAMESPACE"
	ConsulTokenEnv    = "CONSUL_TOKEN"

	ConsulHTTPTokenEnv = "CONSUL_HTTP_TOKEN" // the name that Consul's own programs read
)

// The identities with which a task logs in: names in the list of its identities.
const (
	VaultIdentity  = "vault_default"
	ConsulIdentity = "consul_default"
)

// DefaultLoginCluster is the name of the only Vault and the only Consul of a node.
const DefaultLoginCluster = "default"

// HasVaultEnv reports whether the task has the token of Vault as a variable.
func HasVaultEnv(v *Vault) bool { return v.Env == nil || *v.Env }
