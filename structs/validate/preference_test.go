package validate

import (
	"strings"
	"testing"

	"berth/structs"
)

func TestPreferences_NameTheFault(t *testing.T) {
	nothing := func(*structs.Affinity) {}
	affinity := func(edit func(*structs.Affinity)) func(*structs.Job) {
		return func(j *structs.Job) { j.Affinities = rackAffinity(edit) }
	}
	spread := func(edit func(*structs.Spread)) func(*structs.Job) {
		return func(j *structs.Job) { j.Spreads = rackSpread(edit) }
	}
	limit := func(attribute, value string) func(*structs.Job) {
		c := &structs.Constraint{LTarget: attribute, RTarget: value, Operand: structs.ConstraintDistinctProperty}
		return func(j *structs.Job) { j.TaskGroups[0].Constraints = []*structs.Constraint{c} }
	}
	for _, c := range []struct {
		want string
		edit func(*structs.Job)
	}{
		{"", affinity(nothing)},
		{"", affinity(func(a *structs.Affinity) { a.Weight = -100 })},
		{"", func(j *structs.Job) { j.TaskGroups[0].Affinities = rackAffinity(nothing) }},
		{"", func(j *structs.Job) { j.TaskGroups[0].Tasks[0].Affinities = rackAffinity(nothing) }},
		{"affinity 1: weight 0 must be from -100 to 100 and not 0", affinity(func(a *structs.Affinity) { a.Weight = 0 })},
		{"affinity 1: weight 101 must be", affinity(func(a *structs.Affinity) { a.Weight = 101 })},
		{"affinity 1: attribute is required", affinity(func(a *structs.Affinity) { a.LTarget = "" })},
		{"affinity 1: value of regexp", affinity(func(a *structs.Affinity) { a.Operand = "regexp"; a.RTarget = "(" })},
		{`affinity 1: operator "distinct_hosts" is only for`, affinity(func(a *structs.Affinity) { a.Operand = "distinct_hosts" })},
		{`affinity 1: operator "distinct_property" is only for`,
			affinity(func(a *structs.Affinity) { a.Operand = "distinct_property" })},
		{"affinity 1: it is null", func(j *structs.Job) { j.Affinities = []*structs.Affinity{nil} }},
		{"257 affinities; at most 256", func(j *structs.Job) {
			for range structs.MaxConstraints + 1 {
				j.Affinities = append(j.Affinities, rackAffinity(nothing)...)
			}
		}},
		{"affinity: a system job has none", func(j *structs.Job) {
			j.Type = structs.JobSystem
			j.TaskGroups[0].Tasks[0].Affinities = rackAffinity(nothing)
		}},

		{"", spread(func(*structs.Spread) {})},
		{"", spread(func(s *structs.Spread) { s.SpreadTarget = nil })},
		{"", func(j *structs.Job) { j.TaskGroups[0].Spreads = rackSpread(func(*structs.Spread) {}) }},
		{"spread 1: attribute is required", spread(func(s *structs.Spread) { s.Attribute = "" })},
		{"spread 1: weight 0 must be from 1 to 100", spread(func(s *structs.Spread) { s.Weight = 0 })},
		{"spread 1: weight -1 must be", spread(func(s *structs.Spread) { s.Weight = -1 })},
		{"spread 1: weight 101 must be", spread(func(s *structs.Spread) { s.Weight = 101 })},
		{`spread 1: target 2: value "r1" is there twice`, spread(func(s *structs.Spread) { s.SpreadTarget[1].Value = "r1" })},
		{`spread 1: target 1: percent 101 must be`, spread(func(s *structs.Spread) { s.SpreadTarget[0].Percent = 101 })},
		{"the percentages of its targets are 101 in sum", spread(func(s *structs.Spread) { s.SpreadTarget[0].Percent = 61 })},
		{"spread 1: target 2 is null", spread(func(s *structs.Spread) { s.SpreadTarget[1] = nil })},
		{"spread 1: it is null", func(j *structs.Job) { j.Spreads = []*structs.Spread{nil} }},
		{"spread: a sysbatch job has none", func(j *structs.Job) {
			j.Type = structs.JobSysBatch
			j.TaskGroups[0].Spreads = rackSpread(func(*structs.Spread) {})
		}},

		{"", limit("${meta.rack}", "")},
		{"", limit("${meta.rack}", "3")},
		{"constraint 1: attribute is required", limit("", "3")},
		{`constraint 1: value "0" must be the number`, limit("${meta.rack}", "0")},
		{`constraint 1: value "many" must be`, limit("${meta.rack}", "many")},
		{`constraint 1: value "50001" must be`, limit("${meta.rack}", "50001")},
		{`constraint 1: operator "distinct_property" is only for the constraints of jobs and groups`, task(func(t *structs.Task) {
			t.Constraints = []*structs.Constraint{{LTarget: "${meta.rack}", Operand: structs.ConstraintDistinctProperty}}
		})},
		{`constraint 1: operator "distinct_hosts" is only for the constraints of jobs and groups`, task(func(t *structs.Task) {
			t.Constraints = []*structs.Constraint{{Operand: structs.ConstraintDistinctHosts}}
		})},
		{"constraint 1: it is null", task(func(t *structs.Task) { t.Constraints = []*structs.Constraint{nil} })},
	} {
		err := Job(testJob(c.edit))
		switch {
		case c.want == "" && err != nil:
			t.Errorf("a valid job: %v", err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}
