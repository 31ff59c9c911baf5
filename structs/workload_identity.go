package structs

import (
	"cmp"
	"iter"
	"strings"
	"time"
)

// WorkloadIdentity is an `identity {}` of a task or a service: a signed token that says for which allocation
// it was made.
type WorkloadIdentity struct {
	Name         string   `json:",omitempty" codec:",omitempty"` // DefaultIdentity, or another
	Audience     []string `json:",omitempty" codec:",omitempty"`
	ChangeMode   string   `json:",omitempty" codec:",omitempty"` // noop, restart or signal
	ChangeSignal string   `json:",omitempty" codec:",omitempty"`
	Env          bool     `json:",omitempty" codec:",omitempty"` // the task has it as a variable
	File         bool     `json:",omitempty" codec:",omitempty"` // and as a file
	Filepath     string   `json:",omitempty" codec:",omitempty"` // "": see IdentityPath
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

// The places of the default identity of a task, and the socket of the API, relative to its directory.
const (
	TokenEnv      = "NOMAD_TOKEN"
	SecretsDir    = "secrets"
	APISocketPath = SecretsDir + "/api.sock"
)

// NewDefaultIdentity returns the identity of a task without a block for it.
func NewDefaultIdentity() *WorkloadIdentity {
	return &WorkloadIdentity{
		Name:       DefaultIdentity,
		Audience:   []string{DefaultAudience},
		ChangeMode: TemplateNoop,
	}
}

// IsEndlessIdentity reports whether the tokens of an identity have no end of their own, but their
// allocation's. The servers alone take them.
func IsEndlessIdentity(i *WorkloadIdentity) bool {
	return i.Name == DefaultIdentity && i.TTL == 0
}

// TaskIdentities yields the identities of a task, the default one first.
func TaskIdentities(t *Task) iter.Seq[*WorkloadIdentity] {
	return func(yield func(*WorkloadIdentity) bool) {
		first := t.Identity
		if first == nil {
			first = NewDefaultIdentity()
		}

		if !yield(first) {
			return
		}

		for _, i := range t.Identities {
			if i != nil && !yield(i) {
				return
			}
		}
	}
}

// AwaitsIdentity reports whether a task starts only with a token of an identity of it. The default identity
// is signed for calls over the socket alone, unless it has a file or a variable.
func AwaitsIdentity(i *WorkloadIdentity) bool {
	return i.Name != DefaultIdentity || i.Env || i.File
}

// FindIdentity returns the identity of a task with a name, nil if there is none.
func FindIdentity(t *Task, name string) *WorkloadIdentity {
	for i := range TaskIdentities(t) {
		if i.Name == name {
			return i
		}
	}
	return nil
}

// IdentityPath returns the path of the file of an identity, relative to the directory of the task.
func IdentityPath(i *WorkloadIdentity) string {
	usual := "nomad_" + i.Name + ".jwt"
	if i.Name == DefaultIdentity {
		usual = "nomad_token"
	}
	return cmp.Or(i.Filepath, SecretsDir+"/"+usual)
}

// IdentityEnv returns the name of the variable of an identity. A byte that a variable cannot have becomes _.
func IdentityEnv(i *WorkloadIdentity) string {
	if i.Name == DefaultIdentity {
		return TokenEnv
	}
	return TokenEnv + "_" + strings.Map(func(r rune) rune {
		if r == '-' || r == '.' {
			return '_'
		}
		return r
	}, i.Name)
}
