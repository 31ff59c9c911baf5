package place

import (
	"slices"
	"testing"
	"time"

	"berth/structs"
)

// Delays grow up to the longest one, and begin again after an allocation that lived longer.
func TestReschedule_DelaysGrow(t *testing.T) {
	for function, want := range map[string][]int{
		structs.RescheduleConstant:    {10, 10, 10, 10, 10, 10, 10, 10, 10, 10},
		structs.RescheduleExponential: {10, 20, 40, 60, 60, 60, 60, 10, 20, 40},
		structs.RescheduleFibonacci:   {10, 10, 20, 30, 50, 60, 60, 10, 10, 20},
	} {
		policy := &structs.ReschedulePolicy{
			Delay:         10 * time.Second,
			MaxDelay:      time.Minute,
			DelayFunction: function,
		}
		a := &structs.Allocation{RescheduleTracker: &structs.RescheduleTracker{}}
		var got []int
		for i := range want {
			lived := time.Second
			if i == 7 {
				lived = 2 * time.Minute
			}
			delay := nextDelay(policy, a, int64(lived))
			got = append(got, int(delay.Seconds()))
			a.RescheduleTracker.Events = append(a.RescheduleTracker.Events, &structs.RescheduleEvent{Delay: delay})
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: delays %v, want %v", function, got, want)
		}
	}
}

// The attempts count in the interval before the end of an allocation.
func TestReschedule_AttemptsCountInTheirInterval(t *testing.T) {
	policy := &structs.ReschedulePolicy{
		Attempts:      1,
		Interval:      time.Hour,
		Delay:         5 * time.Second,
		DelayFunction: structs.RescheduleConstant,
	}
	begin := time.Unix(1_700_000_000, 0)
	for ended, want := range map[time.Duration]bool{59 * time.Minute: false, 61 * time.Minute: true} {
		a := &structs.Allocation{
			ModifyTime: begin.Add(ended).UnixNano(),
			RescheduleTracker: &structs.RescheduleTracker{
				Events: []*structs.RescheduleEvent{{RescheduleTime: begin.UnixNano()}},
			},
		}
		if _, _, ok := NextReschedule(policy, a); ok != want {
			t.Errorf("%s after the last attempt: there is another one: %v, want %v", ended, ok, want)
		}
	}
}

// The delay counts from the time at which the servers heard of the end, if the clock of the node is wrong.
func TestNextTry_IgnoresTheClockOfANodeThatIsWrong(t *testing.T) {
	policy := &structs.ReschedulePolicy{
		Unlimited:     true,
		Delay:         30 * time.Second,
		DelayFunction: structs.RescheduleConstant,
	}
	heard := time.Unix(1_700_000_000, 0)
	for behind, want := range map[time.Duration]time.Duration{
		0:               30 * time.Second,
		5 * time.Second: 25 * time.Second,
		time.Hour:       30 * time.Second,
		-time.Hour:      30 * time.Second,
	} {
		a := &structs.Allocation{
			ModifyTime: heard.UnixNano(),
			TaskStates: map[string]*structs.TaskState{"t": {FinishedAt: heard.Add(-behind)}},
		}
		due, _, ok := NextReschedule(policy, a)
		if wait := time.Duration(due - heard.UnixNano()); !ok || wait != want {
			t.Errorf("a node that is %s behind: replaced after %s, want %s", behind, wait, want)
		}
	}
}
