// Package setupstep has the steps that prepare another system for the logins of workloads. A plan compares
// that system with what is needed. Nothing changes before its steps are applied. It is small because the
// preparations of Consul and of Vault share it, which do not import each other.
package setupstep

import "context"

// Action is what a step does with its object.
type Action string

// The actions.
const (
	Keep   Action = "keep"
	Create Action = "create"
	Change Action = "change"
	Delete Action = "delete"
)

// Step is one object of the other system with what is to be done with it.
type Step struct {
	Action Action
	Kind   string // as that system calls it, such as "auth method"
	Name   string
	Detail string                          `json:",omitempty"`
	Do     func(ctx context.Context) error `json:"-"` // nil: nothing
}

// Apply carries the step out. The error says what the other system does not take.
func (s *Step) Apply(ctx context.Context) error {
	if s.Do == nil {
		return nil
	}
	return s.Do(ctx)
}

// Changes counts the steps that change something.
func Changes(steps []*Step) (n int) {
	for _, s := range steps {
		if s.Action != Keep {
			n++
		}
	}
	return n
}
