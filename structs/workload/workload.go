// Package workload has the rules for the identities of tasks and services: the default one, and the places in
// which a task finds its tokens.
package workload

import (
	"cmp"
	"iter"
	"strings"

	"berth/structs"
)

// The places of the default identity of a task, and the socket of the API, relative to its directory.
const (
	Variable = "NOMAD_TOKEN"
	Dir      = "secrets"
	APIPath  = Dir + "/api.sock"
)

// Default returns the identity of a task without a block for it.
func Default() *structs.WorkloadIdentity {
	return &structs.WorkloadIdentity{
		Name:       structs.DefaultIdentity,
		Audience:   []string{structs.DefaultAudience},
		ChangeMode: structs.TemplateNoop,
	}
}

// IsEndless reports whether the tokens of an identity have no end of their own, but that of their allocation.
// The servers alone take them.
func IsEndless(i *structs.WorkloadIdentity) bool {
	return i.Name == structs.DefaultIdentity && i.TTL == 0
}

// OfTask yields the identities of a task, the default one first.
func OfTask(t *structs.Task) iter.Seq[*structs.WorkloadIdentity] {
	return func(yield func(*structs.WorkloadIdentity) bool) {
		first := t.Identity
		if first == nil {
			first = Default()
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

// Awaits reports whether a task starts only with a token of an identity of it. The default identity is signed
// for calls over the socket alone, unless it has a file or a variable.
func Awaits(i *structs.WorkloadIdentity) bool {
	return i.Name != structs.DefaultIdentity || i.Env || i.File
}

// Find returns the identity of a task with a name, nil if there is none.
func Find(t *structs.Task, name string) *structs.WorkloadIdentity {
	for i := range OfTask(t) {
		if i.Name == name {
			return i
		}
	}
	return nil
}

// Path returns the path of the file of an identity, relative to the directory of the task.
func Path(i *structs.WorkloadIdentity) string {
	usual := "nomad_" + i.Name + ".jwt"
	if i.Name == structs.DefaultIdentity {
		usual = "nomad_token"
	}
	return cmp.Or(i.Filepath, Dir+"/"+usual)
}

// EnvName returns the name of the variable of an identity. A byte that a variable cannot have becomes _.
func EnvName(i *structs.WorkloadIdentity) string {
	if i.Name == structs.DefaultIdentity {
		return Variable
	}
	return Variable + "_" + strings.Map(func(r rune) rune {
		if r == '-' || r == '.' {
			return '_'
		}
		return r
	}, i.Name)
}
