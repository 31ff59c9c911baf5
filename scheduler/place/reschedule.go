package place

import (
	"slices"
	"time"

	"berth/structs"
)

// This file tells when an allocation that has ended is replaced, by the policy of its group, and which
// reschedules its successor remembers. It is pure. The memory is in the rows of the allocations: each one has
// the reschedules before it.

// perNodePolicy is the policy of system jobs, which have no policy field: an allocation comes back to its
// node without limit, with a growing delay while it keeps failing.
var perNodePolicy = &structs.ReschedulePolicy{
	Delay:         10 * time.Second,
	MaxDelay:      5 * time.Minute,
	DelayFunction: structs.RescheduleExponential,
	Unlimited:     true,
}

// keptReschedules is the number of reschedules that an allocation remembers under an unlimited policy.
const keptReschedules = 10

// ReschedulePolicyOf returns the policy of a group.
func ReschedulePolicyOf(j *structs.Job, g *structs.TaskGroup) *structs.ReschedulePolicy {
	if j.Type == structs.JobSystem {
		return perNodePolicy
	}
	return g.ReschedulePolicy
}

// NextReschedule returns the time of the replacement of an ended allocation, and its delay; false for never.
func NextReschedule(
	policy *structs.ReschedulePolicy, a *structs.Allocation,
) (due int64, delay time.Duration, ok bool) {
	if !policy.Enabled() {
		return 0, 0, false
	}

	ended := endOf(a)
	begin := ended - int64(policy.Interval)
	if !policy.Unlimited &&
		triesSince(a, begin) >= policy.Attempts {
		return 0, 0, false
	}

	delay = nextDelay(policy, a, ended)
	return ended + int64(delay), delay, true
}

// skew is by how much the clocks of machines may differ without a fault.
const skew = time.Minute

// endOf returns the time at which the allocation's last task ended, UnixNano. The clock of a node may be
// wrong: a time far from that at which the servers heard of the end counts for nothing. So a node that is an
// hour behind does not replace an allocation at once, time after time.
func endOf(a *structs.Allocation) int64 {
	var last int64
	for _, t := range a.TaskStates {
		if t != nil && !t.FinishedAt.IsZero() {
			last = max(last, t.FinishedAt.UnixNano())
		}
	}
	if a.ModifyTime != 0 && time.Duration(last-a.ModifyTime).Abs() > skew {
		return a.ModifyTime
	}
	return last
}

// rescheduleEvents returns the reschedules that led to an allocation, the oldest first.
func rescheduleEvents(a *structs.Allocation) []*structs.RescheduleEvent {
	if a.RescheduleTracker == nil {
		return nil
	}
	return a.RescheduleTracker.Events
}

// triesSince counts the reschedules within an interval that ends with the allocation.
func triesSince(a *structs.Allocation, since int64) int {
	n := 0
	for _, e := range rescheduleEvents(a) {
		if e.RescheduleTime >= since {
			n++
		}
	}
	return n
}

// nextDelay returns the delay of the next reschedule. Delays that grow begin again after an allocation that
// lived longer than the longest delay.
func nextDelay(policy *structs.ReschedulePolicy, a *structs.Allocation, ended int64) time.Duration {
	past := rescheduleEvents(a)
	lived := time.Duration(ended - a.CreateTime)
	if !policy.DelaysGrow() ||
		len(past) == 0 ||
		lived > policy.MaxDelay {
		return policy.Delay
	}

	last := past[len(past)-1].Delay
	added := last // twice the last delay
	if policy.DelayFunction == structs.RescheduleFibonacci {
		added = delayBefore(past)
	}

	return max(policy.Delay, min(last+added, policy.MaxDelay))
}

// delayBefore returns the delay before the last one, 0 if the last one began the delays again.
func delayBefore(past []*structs.RescheduleEvent) time.Duration {
	if len(past) < 2 {
		return 0
	}

	before := past[len(past)-2].Delay
	if before > past[len(past)-1].Delay {
		return 0
	}

	return before
}

// rescheduleTracker returns the reschedules that the successor of an allocation remembers. The newest one is
// added unless it is nil.
func rescheduleTracker(
	policy *structs.ReschedulePolicy, prev *structs.Allocation, newest *structs.RescheduleEvent,
) *structs.RescheduleTracker {
	events := slices.Clone(rescheduleEvents(prev))
	if newest != nil {
		events = append(events, newest)
	}

	if len(events) == 0 {
		return nil
	}

	most := keptReschedules
	if policy != nil && !policy.Unlimited {
		// The attempts within the interval are counted in the events, so all of them must be kept.
		most = max(most, policy.Attempts)
	}

	oldest := max(0, len(events)-most)
	return &structs.RescheduleTracker{Events: events[oldest:]}
}
