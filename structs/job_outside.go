package structs

// Vault is a task's `vault {}`: the node logs in with the identity of the task, and keeps the token alive.
type Vault struct {
	Role      string `json:",omitempty" codec:",omitempty"` // "": the node's, or the auth method's
	Namespace string `json:",omitempty" codec:",omitempty"` // of Vault; "": the node's
	Cluster   string `json:",omitempty" codec:",omitempty"` // outside.DefaultCluster
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
	Cluster   string `json:",omitempty" codec:",omitempty"` // outside.DefaultCluster
}
