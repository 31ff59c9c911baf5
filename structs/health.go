package structs

import "time"

// HealthRule is the rule by which a node decides on the health of an allocation.
type HealthRule struct {
	Check    string        // one of HealthChecks, HealthTaskStates and HealthManual
	MinTime  time.Duration // without a restart, after which the allocation is healthy
	Deadline time.Duration // after which an allocation that is not healthy is unhealthy
}

// HealthRule returns the rule for the allocations of a group: in a deployment from its update block, or else
// from its migrate block. It is nil if the group does not have the block.
func (g *TaskGroup) HealthRule(inDeployment bool) *HealthRule {
	switch u, m := g.Update, g.Migrate; {
	case inDeployment && u != nil:
		return &HealthRule{Check: u.HealthCheck, MinTime: u.MinHealthyTime, Deadline: u.HealthyDeadline}
	case !inDeployment && m != nil:
		return m.HealthRule()
	}
	return nil
}

// HealthRule returns the rule for the allocations of a group that are in no deployment.
func (m *MigrateStrategy) HealthRule() *HealthRule {
	return &HealthRule{Check: m.HealthCheck, MinTime: m.MinHealthyTime, Deadline: m.HealthyDeadline}
}

// TaskOrder is the part of an allocation's health that the states of its tasks tell.
type TaskOrder struct {
	Failed bool      // a task has ended that is to run
	Runs   bool      // all tasks run or have done their work
	Since  time.Time // since when they are in order; zero while one is not, also if its plugin is unhealthy
}

// OrderOf looks at the states of an allocation's tasks. Tasks after the end of the others do not count.
func OrderOf(tasks []*Task, states map[string]*TaskState) TaskOrder {
	order := TaskOrder{Runs: len(tasks) > 0}
	inOrder := true
	for _, t := range tasks {
		if t.HasHook(LifecyclePoststop) {
			continue
		}

		s := states[t.Name]
		if s != nil && s.State == TaskDead && !(s.Successful() && t.mayEnd()) {
			return TaskOrder{Failed: true}
		}

		if s == nil || s.State != TaskRunning && s.State != TaskDead {
			return TaskOrder{}
		}

		from, ok := t.inOrderSince(s)
		inOrder = inOrder && ok
		if from.After(order.Since) {
			order.Since = from
		}
	}

	if !inOrder {
		order.Since = time.Time{}
	}

	return order
}

// mayEnd reports whether a task is no fault when it ends: it prepares others, or follows their start.
func (t *Task) mayEnd() bool {
	return t.Lifecycle != nil && !t.Lifecycle.Sidecar
}

// inOrderSince returns the time since which a task that runs or has done its work is in order. One that runs
// a plugin needs a healthy one.
func (t *Task) inOrderSince(s *TaskState) (from time.Time, ok bool) {
	if s.State == TaskDead {
		return s.FinishedAt, true
	}

	from = s.StartedAt
	if s.LastRestart.After(from) {
		from = s.LastRestart
	}

	if t.CSIPluginConfig == nil {
		return from, true
	}

	for i := len(s.Events) - 1; i >= 0; i-- {
		e := s.Events[i]
		switch e.Type {
		case TaskEventPluginHealthy:
			if at := time.Unix(0, e.Time); at.After(from) {
				from = at
			}
			return from, true

		case TaskEventPluginUnhealthy, TaskEventStarted:
			return from, false
		}
	}

	return from, false
}
