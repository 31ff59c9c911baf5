package jobspec

import (
	"fmt"

	"berth/structs"
)

// vault is the block of a job, a group or a task. A block changes the one around it.
type vault struct {
	Role                 string       `hcl:"role"`
	Namespace            *string      `hcl:"namespace"`
	Cluster              vaultCluster `hcl:"cluster"`
	Env                  *bool        `hcl:"env"`
	DisableFile          *bool        `hcl:"disable_file"`
	ChangeMode           string       `hcl:"change_mode"`
	ChangeSignal         string       `hcl:"change_signal"`
	AllowTokenExpiration *bool        `hcl:"allow_token_expiration"`
	File                 *bool        `hcl:"file"` // the former name, with the opposite value
}

func (vault) Rejected() map[string]string {
	return map[string]string{
		"policies": "a task logs in with its identity, and a role of Vault has the policies; name the role",
	}
}

type vaultCluster struct{}

// Expected describes the name that the dialect gives to the only Vault of a node.
func (*vaultCluster) Expected() string { return `"default"` }

// UnmarshalText accepts the name of the only Vault.
func (c *vaultCluster) UnmarshalText(text []byte) error {
	if len(text) > 0 && string(text) != structs.DefaultLoginCluster {
		return fmt.Errorf("a node has one Vault, not %.40q; expected %s", text, c.Expected())
	}
	return nil
}

// vault returns the block of a task: each block changes those before it. It is nil without any.
func vaultOf(blocks ...*vault) *structs.Vault {
	var out *structs.Vault
	for _, b := range blocks {
		if b == nil {
			continue
		}

		if out == nil {
			out = &structs.Vault{}
		}

		b.override(out)
	}
	return out
}

// override sets the fields that the block names.
func (v *vault) override(out *structs.Vault) {
	for _, x := range []struct {
		field *string
		value string
	}{
		{&out.Role, v.Role},
		{&out.ChangeMode, v.ChangeMode},
		{&out.ChangeSignal, v.ChangeSignal},
	} {
		if x.value != "" {
			*x.field = x.value
		}
	}

	override(&out.Namespace, v.Namespace)
	override(&out.DisableFile, v.DisableFile)
	override(&out.AllowTokenExpiration, v.AllowTokenExpiration)
	if v.Env != nil {
		out.Env = v.Env
	}

	if v.File != nil {
		out.DisableFile = !*v.File
	}
}

// consulOf returns the innermost block, nil without any.
func consulOf(blocks ...*consul) *structs.Consul {
	for _, b := range blocks {
		if b != nil {
			return &structs.Consul{Cluster: structs.DefaultLoginCluster}
		}
	}
	return nil
}
