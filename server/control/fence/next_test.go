package fence

import (
	"testing"

	"berth/structs/cluster"
)

func TestNext(t *testing.T) {
	const later = 100
	run := func(attempt int, device, state string, changes ...func(*cluster.FenceRun)) *cluster.FenceRun {
		r := &cluster.FenceRun{Attempt: attempt, Device: device, State: state}
		for _, change := range changes {
			change(r)
		}
		return r
	}
	ends := func(r *cluster.FenceRun) { r.NextTry = later }
	ahead := func(by int64) func(*cluster.FenceRun) {
		return func(r *cluster.FenceRun) { r.NextTry = int64(retry.Max) + by }
	}
	left := func(r *cluster.FenceRun) { r.Cause = cluster.FenceCauseLeader }
	failed := cluster.FenceFailed
	order := &cluster.FenceOrder{After: 2}
	both := []string{"a", "b"}
	type runs = []*cluster.FenceRun
	for name, c := range map[string]struct {
		at   situation
		now  int64
		want step
	}{
		"nobody waits":           {situation{devices: both}, 0, step{}},
		"somebody waits":         {situation{devices: both, waited: true}, 0, step{kind: runDevice, device: "a", attempt: 1}},
		"the brake is on":        {situation{devices: both, waited: true, braked: true}, 0, step{}},
		"an order needs nobody":  {situation{devices: both, order: order}, 0, step{kind: runDevice, device: "a", attempt: 1}},
		"an order passes it":     {situation{devices: both, order: order, braked: true}, 0, step{kind: runDevice, device: "a", attempt: 1}},
		"it did not report":      {situation{devices: both, waited: true, unaccounted: true}, 0, step{}},
		"an order, unreported":   {situation{devices: both, order: order, unaccounted: true}, 0, step{kind: runDevice, device: "a", attempt: 1}},
		"there is no device":     {situation{waited: true}, 0, step{kind: noteNoDevice, attempt: 1}},
		"the next device":        {situation{devices: both, waited: true, runs: runs{run(1, "a", failed)}}, 0, step{kind: runDevice, device: "b", attempt: 1}},
		"after a leader ended":   {situation{devices: both, waited: true, runs: runs{run(1, "a", failed, left)}}, 0, step{kind: runDevice, device: "a", attempt: 1}},
		"too early":              {situation{devices: both, waited: true, runs: runs{run(1, "b", failed, ends)}}, later - 1, step{}},
		"again":                  {situation{devices: both, waited: true, runs: runs{run(1, "b", failed, ends)}}, later, step{kind: runDevice, device: "a", attempt: 2}},
		"the clock was ahead":    {situation{devices: both, waited: true, runs: runs{run(1, "b", failed, ahead(1))}}, 0, step{kind: runDevice, device: "a", attempt: 2}},
		"the longest pause":      {situation{devices: both, waited: true, runs: runs{run(1, "b", failed, ahead(0))}}, 0, step{}},
		"an order does not wait": {situation{devices: both, order: order, runs: runs{run(1, "b", failed, ends)}}, 0, step{kind: runDevice, device: "a", attempt: 2}},
		"the devices are others": {situation{devices: []string{"a"}, waited: true, runs: runs{run(1, "a", failed)}}, 0, step{kind: noteNoDevice, attempt: 1}},
	} {
		if got := next(c.at, c.now); got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}
