package structs

import "time"

// WorkloadIdentity is an `identity {}` of a task or a service: a signed token that says for which allocation
// it was made. Package workload has the places in which a task finds it.
type WorkloadIdentity struct {
	Name         string   `json:",omitempty" codec:",omitempty"` // DefaultIdentity, or another
	Audience     []string `json:",omitempty" codec:",omitempty"`
	ChangeMode   string   `json:",omitempty" codec:",omitempty"` // noop, restart or signal
	ChangeSignal string   `json:",omitempty" codec:",omitempty"`
	Env          bool     `json:",omitempty" codec:",omitempty"` // the task has it as a variable
	File         bool     `json:",omitempty" codec:",omitempty"` // and as a file
	Filepath     string   `json:",omitempty" codec:",omitempty"` // "": see workload.Path
	ServiceName  string   `json:",omitempty" codec:",omitempty"` // of the identity of a service
	// TTL is the life of a token. 0 is for the default identity: its tokens end with the allocation.
	TTL time.Duration `json:",omitempty" codec:",omitempty"`
}

// The values of the identity that each task has, also without a block. Its tokens are for the API of the
// cluster. DefaultIdentityTTL is the life of the tokens of all other identities.
const (
	DefaultIdentity    = "default"
	DefaultAudience    = "nomadproject.io"
	DefaultIdentityTTL = time.Hour
)
