package jobspec

import (
	"slices"

	"github.com/hashicorp/hcl/v2"
)

// Identity is a block with which a job of the dialect asks for a token. The JSON of the API has the same
// fields. Nothing of it is stored, because berth issues no tokens.
type Identity struct {
	At           hcl.Range `hcl:",range" json:"-"`
	Name         string    `hcl:"name"`
	Audience     []string  `hcl:"aud"`
	ChangeMode   string    `hcl:"change_mode"`
	ChangeSignal string    `hcl:"change_signal"`
	Env          bool      `hcl:"env"`
	File         bool      `hcl:"file"`
	Filepath     string    `hcl:"filepath"`
	TTL          ttl       `hcl:"ttl"`
	ServiceName  string    `hcl:"service_name"`
	ExtraClaims  []string  `hcl:"extra_claims"`
}

// ttl is a duration, which nothing reads: it is a text in job files and a number in JSON.
type ttl struct{}

// UnmarshalText accepts any text.
func (*ttl) UnmarshalText([]byte) error { return nil }

// UnmarshalJSON accepts any value.
func (*ttl) UnmarshalJSON([]byte) error { return nil }

// The reasons of warnings of an identity, and the remedy of a rejected one.
const (
	NoTaskToken = "berth issues no tokens: the task finds none in NOMAD_TOKEN and secrets/nomad_token, " +
		"and the API asks for none"
	NoServiceToken      = "the agent of the node registers the service with its own token of Consul"
	NoOtherServiceToken = "the identity of a service is one for Consul, with aud = [\"consul.io\"] alone; " +
		"leave it out"
	NoOtherToken = "berth issues no tokens; leave the identity out, and let a template read a token by " +
		"nomadVar; the default identity without aud and filepath is accepted with a warning"
)

// IsDefault reports whether the identity is the one that the dialect gives every task. Its token is one for
// the API of the cluster alone, which berth leaves open, so that a task loses no right without it.
func (i *Identity) IsDefault() bool {
	return (i.Name == "" || i.Name == "default") &&
		i.Filepath == "" &&
		i.ServiceName == "" &&
		len(i.ExtraClaims) == 0 &&
		(len(i.Audience) == 0 || slices.Equal(i.Audience, []string{"nomadproject.io"}))
}

// IsOfConsul reports whether the token of the identity of a service is one for Consul. No task gets it: the
// node registers the service with it.
func (i *Identity) IsOfConsul() bool {
	return !i.Env && !i.File && i.Filepath == "" && slices.Equal(i.Audience, []string{"consul.io"})
}

// taskIdentities warns of default identities and rejects others.
func (c *converter) taskIdentities(list []*Identity) {
	for _, i := range list {
		if i.IsDefault() {
			c.warn(i.At, "%q has no effect: %s", "identity", NoTaskToken)
			continue
		}
		c.fault(i.At, "%q is not supported by berth: %s", "identity", NoOtherToken)
	}
}

// serviceIdentity warns of an identity for Consul and rejects others.
func (c *converter) serviceIdentity(i *Identity) {
	switch {
	case i == nil:
	case i.IsOfConsul():
		c.warn(i.At, "%q has no effect: %s", "identity", NoServiceToken)
	default:
		c.fault(i.At, "%q is not supported by berth: %s", "identity", NoOtherServiceToken)
	}
}
