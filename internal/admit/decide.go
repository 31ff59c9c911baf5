package admit

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"berth/internal/spelling"
	"berth/structs"
	"berth/structs/admission"
)

// Verdict is the result of all rules about the objects of a request: a line for each rule whose expression
// does not hold.
type Verdict struct {
	Denials  []string
	Warnings []string
}

// Err returns an error of kind denied with all denials, nil without any.
func (v Verdict) Err() error {
	if len(v.Denials) == 0 {
		return nil
	}
	return structs.Deniedf("%s", strings.Join(v.Denials, "\n"))
}

// Applies reports whether a rule is about the objects of a kind in a namespace.
func Applies(r *admission.Rule, on, namespace string) bool {
	matches := func(pattern string) bool { return spelling.MatchPattern(pattern, namespace) }
	return r.On == on && (len(r.Namespaces) == 0 || slices.ContainsFunc(r.Namespaces, matches))
}

// Decide evaluates the rules that are about the objects of a request, in their order. A rule that cannot be
// evaluated, or whose turn comes after the bounds on the cost and the time of the request, counts as one that
// does not hold: it denies in mode deny. The error is a timeout if the caller has gone.
func (e *Engine) Decide(ctx context.Context, rules []*admission.Rule, objects ...Input) (Verdict, error) {
	var v Verdict
	left := e.maxCost
	timed, cancel := e.timed(ctx)
	defer cancel()
	for _, in := range objects {
		for _, r := range rules {
			if !Applies(r, in.On, in.Namespace) {
				continue
			}

			out := Outcome{Fault: structs.Preconditionf("the rules before it have cost all %d steps", e.maxCost)}
			if left > 0 {
				out = e.evaluate(timed, r, in)
			}
			if ctx.Err() != nil {
				return Verdict{}, structs.Timeoutf("evaluating the admission rules: %w", ctx.Err())
			}
			left -= int64(out.Cost)
			if !out.Holds {
				v.add(r, in, out)
			}
		}
	}
	return v, nil
}

func (v *Verdict) add(r *admission.Rule, in Input, out Outcome) {
	line := Line(r, in, out)
	if r.Mode == admission.ModeWarn {
		v.Warnings = append(v.Warnings, line)
		return
	}
	v.Denials = append(v.Denials, line) // also a mode that a newer version has
}

// Line returns the text for the submitter of an object for which a rule does not hold.
func Line(r *admission.Rule, in Input, out Outcome) string {
	does := "denies"
	if r.Mode == admission.ModeWarn {
		does = "warns about"
	}
	text := r.Message
	if out.Fault != nil {
		text = fmt.Sprintf("it cannot be evaluated: %v; tell the operators of the cluster", out.Fault)
	}
	return fmt.Sprintf("admission rule %q %s %s %q: %s", r.Name, does, in.On,
		structs.Cut(in.ID, structs.MaxQuoted), text)
}
