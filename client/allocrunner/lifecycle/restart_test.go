package lifecycle

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
	used := History{Since: now.Add(-20 * time.Second), Count: 2}
	for _, tc := range []struct {
		name   string
		h      History
		p      structs.RestartPolicy
		finite bool
		e      Ending
		want   Decision
		count  int
	}{
		{"a batch task that succeeded", History{}, fail, true, Ending{OK: true}, Decision{}, 0},
		{"a service task that succeeded", History{}, fail, false, Ending{OK: true, Reason: "r"},
			Decision{Restart: true, Delay: 5 * time.Second, Reason: "r"}, 1},
		{"a first failure", History{}, fail, true, Ending{Reason: "r"},
			Decision{Restart: true, Delay: 5 * time.Second, Reason: "r"}, 1},
		{"one too many", used, fail, true, Ending{Reason: "r"},
			Decision{Failed: true, Reason: "exceeded 2 restarts in 1m0s: r"}, 3},
		{"one too many, long ago", History{Since: now.Add(-2 * time.Minute), Count: 2}, fail, true,
			Ending{Reason: "r"},
			Decision{Restart: true, Delay: 5 * time.Second, Reason: "r"}, 1},
		{"one too many, to wait", used, wait, true, Ending{Reason: "r"},
			Decision{Restart: true, Delay: 40 * time.Second, Reason: "r; attempts of this interval are used up"}, 0},
		{"no attempts", History{}, structs.RestartPolicy{Mode: "fail"}, false, Ending{OK: true, Reason: "r"},
			Decision{Failed: true, Reason: "exceeded 0 restarts in 0s: r"}, 1},
		{"what never can", History{}, fail, false, Ending{Final: true, Reason: "r"},
			Decision{Failed: true, Reason: "r"}, 0},
		{"stopped in order to start again", used, fail, true, Ending{Wanted: true, Reason: "r"},
			Decision{Restart: true, Reason: "r"}, 2},
	} {
		h := tc.h
		got := h.Decide(tc.p, tc.finite, now, tc.e)
		if got != tc.want || h.Count != tc.count {
			t.Errorf("%s: got %+v, count %d; want %+v, count %d", tc.name, got,
				h.Count, tc.want, tc.count)
		}
	}
}

func TestPolicyOf_TheTaskWins(t *testing.T) {
	own, groups := &structs.RestartPolicy{Attempts: 1}, &structs.RestartPolicy{Attempts: 2}
	for _, tc := range []struct {
		g, t *structs.RestartPolicy
		want structs.RestartPolicy
	}{{groups, own, *own}, {groups, nil, *groups}, {nil, nil, defaultRestart}} {
		if got := PolicyOf(&structs.TaskGroup{RestartPolicy: tc.g},
			&structs.Task{RestartPolicy: tc.t}); got != tc.want {
			t.Errorf("got %+v, want %+v", got, tc.want)
		}
	}
}
