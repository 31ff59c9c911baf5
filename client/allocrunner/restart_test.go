package allocrunner

import (
	"testing"
	"time"

	"berth/structs"
)

func TestHistory_FollowsTheRestartPolicy(t *testing.T) {
	now := time.Unix(1000, 0)
	fail := structs.RestartPolicy{
		Attempts: 2,
		Interval: time.Minute,
		Delay:    5 * time.Second,
		Mode:     "fail",
	}
	wait := fail
	wait.Mode = "delay"
	used := history{Since: now.Add(-20 * time.Second), Count: 2}
	for _, tc := range []struct {
		name   string
		h      history
		p      structs.RestartPolicy
		finite bool
		e      ending
		want   decision
		count  int
	}{
		{"a batch task that succeeded", history{}, fail, true, ending{ok: true}, decision{}, 0},
		{"a service task that succeeded", history{}, fail, false, ending{ok: true, reason: "r"},
			decision{restart: true, delay: 5 * time.Second, reason: "r"}, 1},
		{"a first failure", history{}, fail, true, ending{reason: "r"},
			decision{restart: true, delay: 5 * time.Second, reason: "r"}, 1},
		{"one too many", used, fail, true, ending{reason: "r"},
			decision{failed: true, reason: "exceeded 2 restarts in 1m0s: r"}, 3},
		{"one too many, long ago", history{Since: now.Add(-2 * time.Minute), Count: 2}, fail, true,
			ending{reason: "r"},
			decision{restart: true, delay: 5 * time.Second, reason: "r"}, 1},
		{"one too many, to wait", used, wait, true, ending{reason: "r"},
			decision{restart: true, delay: 40 * time.Second, reason: "r; attempts of this interval are used up"}, 0},
		{"no attempts", history{}, structs.RestartPolicy{Mode: "fail"}, false, ending{ok: true, reason: "r"},
			decision{failed: true, reason: "exceeded 0 restarts in 0s: r"}, 1},
		{"what never can", history{}, fail, false, ending{final: true, reason: "r"},
			decision{failed: true, reason: "r"}, 0},
		{"stopped in order to start again", used, fail, true, ending{wanted: true, reason: "r"},
			decision{restart: true, reason: "r"}, 2},
	} {
		h := tc.h
		got := h.decide(tc.p, tc.finite, now, tc.e)
		if got != tc.want || h.Count != tc.count {
			t.Errorf("%s: got %+v, count %d; want %+v, count %d", tc.name, got,
				h.Count, tc.want, tc.count)
		}
	}
}

func TestRestartPolicy_OfTheTaskWins(t *testing.T) {
	own, groups := &structs.RestartPolicy{Attempts: 1}, &structs.RestartPolicy{Attempts: 2}
	for _, tc := range []struct {
		g, t *structs.RestartPolicy
		want structs.RestartPolicy
	}{{groups, own, *own}, {groups, nil, *groups}, {nil, nil, defaultRestart}} {
		if got := restartPolicy(&structs.TaskGroup{RestartPolicy: tc.g},
			&structs.Task{RestartPolicy: tc.t}); got != tc.want {
			t.Errorf("got %+v, want %+v", got, tc.want)
		}
	}
}
