package structs

import (
	"strings"
	"testing"
)

func TestScalingPolicy_IsValidated(t *testing.T) {
	for _, c := range []struct {
		name, kind string
		count      int
		policy     ScalingPolicy
		want       string // "" if it is valid
	}{
		{"as it is", JobService, 2, ScalingPolicy{Min: new(int64(1)), Max: new(int64(3))}, ""},
		{"no min", JobService, 2, ScalingPolicy{Max: new(int64(3))}, ""},
		{"no max", JobService, 2, ScalingPolicy{}, "scaling: max is required"},
		{"a negative min", JobService, 2, ScalingPolicy{Min: new(int64(-1)), Max: new(int64(3))}, "scaling: min"},
		{"a large max", JobService, 2, ScalingPolicy{Max: new(int64(1 << 40))}, "scaling: max"},
		{"min above max", JobService, 2, ScalingPolicy{Min: new(int64(4)), Max: new(int64(3))},
			"scaling: min 4 must not be above max 3"},
		{"count below", JobService, 0, ScalingPolicy{Min: new(int64(1)), Max: new(int64(3))},
			"scaling: count 0 is below min 1"},
		{"count above", JobBatch, 4, ScalingPolicy{Min: new(int64(1)), Max: new(int64(3))},
			"scaling: count 4 is above max 3"},
		{"another type", JobService, 2, ScalingPolicy{Type: "vertical_cpu", Max: new(int64(3))},
			`scaling: type "vertical_cpu" must be "horizontal"`},
		{"on every node", JobSystem, 1, ScalingPolicy{Max: new(int64(3))}, "scaling: a system job has none"},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := &Job{ID: "j", Type: c.kind, TaskGroups: []*TaskGroup{{
				Name: "g", Count: c.count, Scaling: &c.policy,
				Tasks: []*Task{{Name: "t", Driver: "exec"}},
			}}}
			j.Canonicalize()
			err := j.Validate()
			switch {
			case c.want == "" && err != nil:
				t.Errorf("rejected: %v", err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}
