package structs

import (
	"encoding/json"
	"strings"
	"testing"
)

func rackAffinity(edit func(*Affinity)) []*Affinity {
	a := &Affinity{LTarget: "${meta.rack}", Operand: "=", RTarget: "r1", Weight: 50}
	edit(a)
	return []*Affinity{a}
}

func rackSpread(edit func(*Spread)) []*Spread {
	s := &Spread{
		Attribute:    "${meta.rack}",
		Weight:       50,
		SpreadTarget: []*SpreadTarget{{Value: "r1", Percent: 60}, {Value: "r2", Percent: 40}},
	}
	edit(s)
	return []*Spread{s}
}

func TestPreferences_NameTheFault(t *testing.T) {
	nothing := func(*Affinity) {}
	affinity := func(edit func(*Affinity)) func(*Job) {
		return func(j *Job) { j.Affinities = rackAffinity(edit) }
	}
	spread := func(edit func(*Spread)) func(*Job) {
		return func(j *Job) { j.Spreads = rackSpread(edit) }
	}
	limit := func(attribute, value string) func(*Job) {
		c := &Constraint{LTarget: attribute, RTarget: value, Operand: ConstraintDistinctProperty}
		return func(j *Job) { j.TaskGroups[0].Constraints = []*Constraint{c} }
	}
	for _, c := range []struct {
		want string
		edit func(*Job)
	}{
		{"", affinity(nothing)},
		{"", affinity(func(a *Affinity) { a.Weight = -100 })},
		{"", func(j *Job) { j.TaskGroups[0].Affinities = rackAffinity(nothing) }},
		{"", func(j *Job) { j.TaskGroups[0].Tasks[0].Affinities = rackAffinity(nothing) }},
		{"affinity 1: weight 0 must be from -100 to 100 and not 0", affinity(func(a *Affinity) { a.Weight = 0 })},
		{"affinity 1: weight 101 must be", affinity(func(a *Affinity) { a.Weight = 101 })},
		{"affinity 1: attribute is required", affinity(func(a *Affinity) { a.LTarget = "" })},
		{"affinity 1: value of regexp", affinity(func(a *Affinity) { a.Operand = "regexp"; a.RTarget = "(" })},
		{`affinity 1: operator "distinct_hosts" is only for`, affinity(func(a *Affinity) { a.Operand = "distinct_hosts" })},
		{`affinity 1: operator "distinct_property" is only for`,
			affinity(func(a *Affinity) { a.Operand = "distinct_property" })},
		{"affinity 1: it is null", func(j *Job) { j.Affinities = []*Affinity{nil} }},
		{"257 affinities; at most 256", func(j *Job) {
			for range MaxConstraints + 1 {
				j.Affinities = append(j.Affinities, rackAffinity(nothing)...)
			}
		}},
		{"affinity: a system job has none", func(j *Job) {
			j.Type = JobSystem
			j.TaskGroups[0].Tasks[0].Affinities = rackAffinity(nothing)
		}},

		{"", spread(func(*Spread) {})},
		{"", spread(func(s *Spread) { s.SpreadTarget = nil })},
		{"", func(j *Job) { j.TaskGroups[0].Spreads = rackSpread(func(*Spread) {}) }},
		{"spread 1: attribute is required", spread(func(s *Spread) { s.Attribute = "" })},
		{"spread 1: weight 0 must be from 1 to 100", spread(func(s *Spread) { s.Weight = 0 })},
		{"spread 1: weight -1 must be", spread(func(s *Spread) { s.Weight = -1 })},
		{"spread 1: weight 101 must be", spread(func(s *Spread) { s.Weight = 101 })},
		{`spread 1: target 2: value "r1" is there twice`, spread(func(s *Spread) { s.SpreadTarget[1].Value = "r1" })},
		{`spread 1: target 1: percent 101 must be`, spread(func(s *Spread) { s.SpreadTarget[0].Percent = 101 })},
		{"the percentages of its targets are 101 in sum", spread(func(s *Spread) { s.SpreadTarget[0].Percent = 61 })},
		{"spread 1: target 2 is null", spread(func(s *Spread) { s.SpreadTarget[1] = nil })},
		{"spread 1: it is null", func(j *Job) { j.Spreads = []*Spread{nil} }},
		{"spread: a sysbatch job has none", func(j *Job) {
			j.Type = JobSysBatch
			j.TaskGroups[0].Spreads = rackSpread(func(*Spread) {})
		}},

		{"", limit("${meta.rack}", "")},
		{"", limit("${meta.rack}", "3")},
		{"constraint 1: attribute is required", limit("", "3")},
		{`constraint 1: value "0" must be the number`, limit("${meta.rack}", "0")},
		{`constraint 1: value "many" must be`, limit("${meta.rack}", "many")},
		{`constraint 1: value "50001" must be`, limit("${meta.rack}", "50001")},
		{`constraint 1: operator "distinct_property" is only for the constraints of jobs and groups`, task(func(t *Task) {
			t.Constraints = []*Constraint{{LTarget: "${meta.rack}", Operand: ConstraintDistinctProperty}}
		})},
		{`constraint 1: operator "distinct_hosts" is only for the constraints of jobs and groups`, task(func(t *Task) {
			t.Constraints = []*Constraint{{Operand: ConstraintDistinctHosts}}
		})},
		{"constraint 1: it is null", task(func(t *Task) { t.Constraints = []*Constraint{nil} })},
	} {
		err := testJob(c.edit).Validate()
		switch {
		case c.want == "" && err != nil:
			t.Errorf("a valid job: %v", err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}

func TestSpread_DefaultsInJSON(t *testing.T) {
	var g TaskGroup
	err := json.Unmarshal([]byte(`{"Spreads":[{"Attribute":"a"},{"Attribute":"b","Weight":0}],
		"Affinities":[{"LTarget":"a"}]}`), &g)
	if err != nil {
		t.Fatal(err)
	}
	if g.Spreads[0].Weight != 50 || g.Spreads[1].Weight != 0 || g.Affinities[0].Weight != 50 {
		t.Errorf("got %+v, %+v, %+v", g.Spreads[0], g.Spreads[1], g.Affinities[0])
	}
}

func TestJob_LimitsPropertyInTwoPlaces(t *testing.T) {
	limit := []*Constraint{{LTarget: "a", Operand: ConstraintDistinctProperty}}
	for name, c := range map[string]struct {
		edit func(*Job)
		want bool
	}{
		"none":             {func(*Job) {}, false},
		"limit of a job":   {func(j *Job) { j.Constraints = limit }, true},
		"limit of a group": {func(j *Job) { j.TaskGroups[0].Constraints = limit }, true},
		"other constraint": {func(j *Job) { j.Constraints = []*Constraint{{LTarget: "a", Operand: "is_set"}} }, false},
	} {
		j := testJob(c.edit)
		if j.LimitsProperty() != c.want {
			t.Errorf("%s: got %v", name, j.LimitsProperty())
		}
	}
}
