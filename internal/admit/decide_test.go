package admit

import (
	"slices"
	"strings"
	"testing"
	"time"

	"berth/structs"
	"berth/structs/admission"
)

func TestDecide_DeniesAndWarnsByTheModeOfARule(t *testing.T) {
	warn := func(r *admission.Rule) *admission.Rule { r.Mode = admission.ModeWarn; return r }
	named := func(r *admission.Rule, patterns ...string) *admission.Rule { r.Namespaces = patterns; return r }
	moded := func(r *admission.Rule, mode string) *admission.Rule { r.Mode = mode; return r }
	const denied = `admission rule "r" denies job "large": no`
	const broken = `admission rule "r" denies job "large": it cannot be evaluated: `
	for _, c := range []struct {
		rule            *admission.Rule
		denial, warning string
	}{
		{onJob("true"), "", ""},
		{onJob("false"), denied, ""},
		{warn(onJob("false")), "", `admission rule "r" warns about job "large": no`},
		{onVolume("false"), "", ""},
		{named(onJob("false"), "team-*", "def*"), denied, ""},
		{named(onJob("false"), "team-*", "defaults"), "", ""},
		{onJob(`job.Meta.none == ""`), broken + "no such key: none", ""},
		{warn(onJob(`job.Meta.none == ""`)), "", `warns about job "large": it cannot be evaluated: no such key`},
		{onJob("job.Newer"), broken + "the expression does not compile: line 1, column 4: undefined field", ""},
		{warn(onJob("job.Newer")), "", "does not compile"},
		{moded(onJob("false"), "of a newer version"), denied, ""},
	} {
		v, err := New().Decide(t.Context(), []*admission.Rule{c.rule}, OfJob(sample(), nil))
		got := strings.Join(v.Denials, "\n")
		warning := strings.Join(v.Warnings, "\n")
		if err != nil || !strings.Contains(got, c.denial) || (c.denial == "") != (got == "") ||
			!strings.Contains(warning, c.warning) || (c.warning == "") != (warning == "") {
			t.Errorf("%s in %v, mode %s: got %+v and %v", c.rule.Expression, c.rule.Namespaces, c.rule.Mode, v, err)
		}
		if structs.IsKind(v.Err(), structs.KindDenied) != (c.denial != "") {
			t.Errorf("%s: got the error %v", c.rule.Expression, v.Err())
		}
	}
}

// TestDecide_BoundsTheCostOfARequest has three rules of the same cost, of which the first ones cost exactly
// what a request may cost.
func TestDecide_BoundsTheCostOfARequest(t *testing.T) {
	e := New()
	if e.maxCost != 10*MaxCost {
		t.Errorf("a request may cost %d steps, want %d", e.maxCost, 10*MaxCost)
	}
	in := OfJob(jobWith(10), nil)
	cost := e.Evaluate(t.Context(), onJob(imageRule), in).Cost
	rules := slices.Repeat([]*admission.Rule{onJob(imageRule)}, 3)
	for most, want := range map[uint64]int{
		1:          2,
		cost:       2,
		cost + 1:   1,
		2 * cost:   1,
		2*cost + 1: 0,
	} {
		e.maxCost = int64(most)
		v, err := e.Decide(t.Context(), rules, in)
		said := strings.Count(strings.Join(v.Denials, "\n"), "the rules before it have cost all")
		if err != nil || len(v.Denials) != want || said != want {
			t.Errorf("of %d steps: got %q and %v, want %d denials", most, v.Denials, err, want)
		}
	}
}

// TestEvaluate_LeavesARuleAllItsSteps has a job about which the rule costs exactly what it may.
func TestEvaluate_LeavesARuleAllItsSteps(t *testing.T) {
	const tasks = 48_799
	withTasks := func(n int) Input {
		job := sample()
		job.TaskGroups = nil
		for i := range 1000 {
			list := slices.Repeat([]*structs.Task{{Name: "t"}}, (n+i)/1000)
			job.TaskGroups = append(job.TaskGroups, &structs.TaskGroup{Name: "g", Tasks: list})
		}
		return OfJob(job, nil)
	}
	rule := onJob(`job.ID != "" && job.TaskGroups.all(g, g.Tasks.all(t, t.Name != ""))`)
	e := New()
	e.maxTime = time.Hour
	out := e.Evaluate(t.Context(), rule, withTasks(tasks))
	if out.Cost != MaxCost || !out.Holds || out.Fault != nil {
		t.Errorf("got %+v, want it to hold with all its steps", out)
	}
	out = e.Evaluate(t.Context(), rule, withTasks(tasks+1))
	if out.Holds || out.Fault == nil {
		t.Errorf("with another task: got %+v, want a fault", out)
	}
}

// TestDecide_BoundsTheTimeOfARequest has a time that is over when the first rule begins. A loop sees that.
func TestDecide_BoundsTheTimeOfARequest(t *testing.T) {
	e := New()
	if e.maxTime != MaxTime {
		t.Errorf("an engine takes up to %s, want %s", e.maxTime, MaxTime)
	}
	e.maxTime = 0
	in := OfJob(jobWith(20_000), nil)
	const want = "the rules take more than 0s"
	out := e.Evaluate(t.Context(), onJob(imageRule), in)
	if out.Holds || out.Fault == nil || !strings.Contains(out.Fault.Error(), want) {
		t.Errorf("one rule: got %+v, want %q", out, want)
	}

	v, err := e.Decide(t.Context(), []*admission.Rule{onJob(imageRule), onJob("true")}, in)
	if err != nil || len(v.Denials) != 2 || !strings.Contains(v.Denials[0], want) {
		t.Errorf("got %+v and %v, want a denial by each rule: %q", v, err, want)
	}
}

func TestDecide_BoundsTheCostOfAllObjectsTogether(t *testing.T) {
	e := New()
	in := OfJob(jobWith(10), nil)
	rule := onJob(imageRule)
	e.maxCost = int64(e.Evaluate(t.Context(), rule, in).Cost)
	v, err := e.Decide(t.Context(), []*admission.Rule{rule}, in, in)
	const want = "the rules before it have cost all"
	if err != nil || len(v.Denials) != 1 || !strings.Contains(v.Denials[0], want) {
		t.Errorf("got %+v and %v, want a denial of the second object alone", v, err)
	}
}

func TestVerdict_NamesEachRuleThatDenies(t *testing.T) {
	err := Verdict{Denials: []string{"one", "two"}}.Err()
	if err == nil || !strings.Contains(err.Error(), "one\ntwo") {
		t.Errorf("got %v, want both denials", err)
	}
}
