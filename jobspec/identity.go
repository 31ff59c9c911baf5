package jobspec

import (
	"time"

	"github.com/hashicorp/hcl/v2"

	"berth/structs"
)

// identity is the block of a task or a service. The fields of structs.WorkloadIdentity have another order, so
// they are copied one by one.
type identity struct {
	At           hcl.Range     `hcl:",range"`
	Name         string        `hcl:"name"`
	Audience     []string      `hcl:"aud"`
	ChangeMode   string        `hcl:"change_mode"`
	ChangeSignal string        `hcl:"change_signal"`
	Env          bool          `hcl:"env"`
	File         bool          `hcl:"file"`
	Filepath     string        `hcl:"filepath"`
	TTL          time.Duration `hcl:"ttl"`
	ServiceName  string        `hcl:"service_name"`
}

func (identity) Rejected() map[string]string {
	return map[string]string{
		"extra_claims": "a token has the claims of its allocation alone; leave it out",
	}
}

func (i *identity) identity() *structs.WorkloadIdentity {
	if i == nil {
		return nil
	}
	return &structs.WorkloadIdentity{
		Name:         i.Name,
		Audience:     i.Audience,
		ChangeMode:   i.ChangeMode,
		ChangeSignal: i.ChangeSignal,
		Env:          i.Env,
		File:         i.File,
		Filepath:     i.Filepath,
		ServiceName:  i.ServiceName,
		TTL:          i.TTL,
	}
}

// identities sets the identities of a task. The one without a name, or with the name of the default one, is
// the default one.
func (c *converter) identities(list []*identity, out *structs.Task) {
	for _, i := range list {
		isDefault := i.Name == "" || i.Name == structs.DefaultIdentity
		switch {
		case isDefault && out.Identity != nil:
			c.fault(i.At, "the task has two identities with the name %q; give one of them another",
				structs.DefaultIdentity)
		case isDefault:
			out.Identity = i.identity()
		default:
			out.Identities = append(out.Identities, i.identity())
		}
	}
}
