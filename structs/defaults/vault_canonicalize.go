package defaults

import (
	"berth/structs"
)

// canonicalizeVault completes a block. Clients of the dialect fill in a signal also where none is sent.
func canonicalizeVault(v *structs.Vault) {
	if v == nil {
		return
	}

	setDefault(&v.Cluster, structs.DefaultLoginCluster)
	setDefault(&v.ChangeMode, structs.TemplateRestart)
	if v.Env == nil {
		v.Env = new(true)
	}

	if v.ChangeMode == structs.TemplateSignal {
		setDefault(&v.ChangeSignal, structs.DefaultTemplateSignal)
	} else {
		v.ChangeSignal = ""
	}
}

// canonicalizeConsul drops the namespace, which has no effect. A warning tells that.
func canonicalizeConsul(c *structs.Consul) {
	if c != nil {
		c.Namespace = ""
		setDefault(&c.Cluster, structs.DefaultLoginCluster)
	}
}
