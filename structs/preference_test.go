package structs

import (
	"encoding/json"
	"testing"
)

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
		j := &Job{TaskGroups: []*TaskGroup{{}}}
		c.edit(j)
		if j.LimitsProperty() != c.want {
			t.Errorf("%s: got %v", name, j.LimitsProperty())
		}
	}
}
