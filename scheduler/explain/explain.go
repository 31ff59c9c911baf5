// Package explain tells why a job or a volume waits: the chain of reasons down to the node, the filter, the
// claim, the plugin or the limit that holds it, and the next thing that an operator can do.
//
// Its rules:
//
//   - It is pure: it reads a snapshot and the time. The same rows give the same text.
//   - It decides on fields, never on the words of a message. It passes on messages of nodes, plugins and the
//     scheduler as they are.
//   - It reads the rows of the job or the volume and the rows that they name. Of each list it explains the
//     first entries and counts the rest. Its cost does not grow with the fleet.
//   - A reason has a remedy, or one before or behind it has. A test names the exceptions.
//   - A command of a remedy names the namespace of its object, if that is not the default one.
package explain

import (
	"fmt"
	"slices"
	"time"

	"berth/state"
	"berth/structs"
)

// mostListed bounds the reasons of one kind. A last one counts the rest.
const mostListed = 10

// explainer collects the reasons of one job or volume.
type explainer struct {
	tx     *state.ReadTx
	now    time.Time
	reader reader
	fences func(*structs.Node) bool // as in View, or nil
	// job is the job that is explained, nil of a volume.
	job *structs.Job
	// group is the name of the group of the job whose wait is explained, "" for none.
	group string
	// shown has the allocations that a reason before has explained.
	shown map[string]bool
}

// View is what an explanation reads, and for whom.
type View struct {
	Tx  *state.ReadTx
	Now time.Time
	// Sees reports whether the reader may know the allocations of a namespace; nil: of each.
	Sees func(namespace, id string) bool
	// Fences reports whether a device of the servers can carry out an order to fence a node; nil: none can.
	Fences func(*structs.Node) bool
}

func newExplainer(v View) *explainer {
	return &explainer{tx: v.Tx, now: v.Now, reader: reader{v.Sees}, fences: v.Fences, shown: map[string]bool{}}
}

// reader is for whom an explanation is.
type reader struct {
	sees func(namespace, id string) bool // as in View
}

// allocOf names an allocation and its job for a reader that may know both.
func (r reader) allocOf(a *structs.Allocation) string {
	if !r.seesNamespace(a.Namespace) {
		return "an allocation of another namespace"
	}
	return fmt.Sprintf("allocation %s of job %s", structs.ShortID(a.ID), a.JobID)
}

// seesNamespace reports whether the reader may know the allocations and jobs of a namespace, and the volumes
// that they use.
func (r reader) seesNamespace(namespace string) bool {
	return r.sees == nil || r.sees(namespace, "")
}

// list returns the first reasons, and a last one with the number of the others.
func list(reasons []*structs.Reason, noun string) []*structs.Reason {
	if len(reasons) <= mostListed {
		return reasons
	}
	rest := len(reasons) - mostListed
	return append(slices.Clip(reasons[:mostListed]), &structs.Reason{
		Text: fmt.Sprintf("and %d more %s", rest, noun),
	})
}

// sample has the first reasons of one kind, and the number of the others. The others are not made: a job may
// have very many allocations that wait for one volume.
type sample struct {
	reasons []*structs.Reason
	rest    int
}

// full reports whether the next reason would not be shown.
func (s *sample) full() bool {
	return len(s.reasons) == mostListed
}

// add adds a reason, or counts it. It ignores nil.
func (s *sample) add(r *structs.Reason) {
	switch {
	case r == nil:
	case s.full():
		s.rest++
	default:
		s.reasons = append(s.reasons, r)
	}
}

// list returns the reasons, and a last one with the number of the others.
func (s *sample) list(noun string) []*structs.Reason {
	if s.rest == 0 {
		return s.reasons
	}
	return append(s.reasons, reason("and %d more %s", s.rest, noun))
}

// passing is a part of a text that changes as time passes.
type passing struct {
	text string
	fact string // its part that does not
}

// String returns the text.
func (p passing) String() string { return p.text }

// reason returns a reason. Its fact differs from its text if an argument is passing.
func reason(format string, args ...any) *structs.Reason {
	r := &structs.Reason{Text: fmt.Sprintf(format, args...)}
	facts := slices.Clone(args)
	for i, arg := range args {
		if p, changes := arg.(passing); changes {
			facts[i] = p.fact
		}
	}

	// A watch compares facts, so that the passing of time is no change to it.
	if fact := fmt.Sprintf(format, facts...); fact != r.Text {
		r.Fact = fact
	}

	return r
}

// addPassing adds a part to the text of a reason that changes as time passes.
func addPassing(r *structs.Reason, text string, part passing) {
	r.Fact = r.Same()
	r.Text += text + part.text
}

// until describes a time in the future, or that it has come.
func (x *explainer) until(nanos int64) passing {
	left := time.Unix(0, nanos).Sub(x.now).Round(time.Second)
	if left <= 0 {
		return passing{text: "now"}
	}
	return passing{text: "in " + left.String()}
}

// since describes the time from a moment in the past.
func (x *explainer) since(nanos int64) passing {
	return passing{text: max(0, x.now.Sub(time.Unix(0, nanos))).Round(time.Second).String()}
}

// count joins a number and a noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func (x *explainer) nodeName(id string) string {
	n := state.Node(x.tx, id)
	if n == nil || n.Name == "" {
		return structs.ShortID(id)
	}
	return n.Name
}
