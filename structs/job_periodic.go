package structs

import (
	"encoding/json"
	"fmt"
	"time"
)

// PeriodicCron is the type of a schedule, of which there is one.
const PeriodicCron = "cron"

// PeriodicConfig makes a job start a child at each time of a schedule: Spec is one cron expression, Specs are
// several. The job itself runs nothing.
type PeriodicConfig struct {
	Enabled         bool
	Spec            string
	Specs           []string
	SpecType        string
	ProhibitOverlap bool   // a time passes without a launch while a former child has not ended
	TimeZone        string // an IANA name
}

// UnmarshalJSON reads a schedule. In the dialect it is enabled if it does not say otherwise.
func (p *PeriodicConfig) UnmarshalJSON(b []byte) error {
	type plain PeriodicConfig
	v := plain{Enabled: true}
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	*p = PeriodicConfig(v)
	return nil
}

// PeriodicLaunch is the row of the last launch of a periodic job, also of one that was skipped. Before the
// first, Launch is the time of the registration. The next launch follows from it, for each leader alike. Key:
// (Namespace, ID).
type PeriodicLaunch struct {
	Namespace string
	ID        string
	Launch    int64 // UnixNano
	Indexes
}

// Crons returns all expressions of the schedule.
func (p *PeriodicConfig) Crons() []string {
	if p.Spec != "" {
		return append([]string{p.Spec}, p.Specs...)
	}
	return p.Specs
}

// Location returns the time zone of the schedule.
func (p *PeriodicConfig) Location() (*time.Location, error) {
	if p.TimeZone == "Local" || len(p.TimeZone) > MaxName {
		return nil, Invalidf("time_zone: expected a name that is the same on every server")
	}
	return time.LoadLocation(p.TimeZone)
}

// Next returns the first time of the schedule after a time, zero if there is none. A time in an hour that the
// time zone skips does not come on that day. One in an hour that it repeats comes twice.
func (p *PeriodicConfig) Next(after time.Time) (next time.Time, err error) {
	zone, err := p.Location()
	if err != nil {
		return time.Time{}, err
	}

	next, err = NextCron(p.Crons(), after.In(zone))
	if err != nil {
		return time.Time{}, Invalidf("%v", err)
	}
	return next, nil
}

// PeriodicForce launches a child of a periodic job now.
var PeriodicForce = Write[PeriodicForceRequest, PeriodicForceResponse]("Periodic.Force")

// PeriodicForceRequest names the job.
type PeriodicForceRequest struct {
	JobID string
	WriteOptions
}

// PeriodicForceResponse names the evaluation of the child.
type PeriodicForceResponse struct {
	EvalID          string
	EvalCreateIndex uint64
	WriteMeta
}

// PeriodicLaunchRequest records a launch at a time, and registers the child with its evaluation. Without a
// child the launch is skipped. It has no effect if the parent has another JobModifyIndex, or if its last
// launch is not before the time. One that is in the future of the clocks does not count.
type PeriodicLaunchRequest struct {
	ParentID       string
	JobModifyIndex uint64
	Launch         int64 // UnixNano
	Child          *Job
	Eval           *Evaluation
	WriteOptions
}

// ChildAt returns the job that a periodic job launches at a time.
func (j *Job) ChildAt(at time.Time) *Job {
	child := j.child(fmt.Sprintf("%s%s%d", j.ID, periodicInfix, at.Unix()))
	child.Periodic = nil
	return child
}

const (
	periodicInfix = "/periodic-"
	dispatchInfix = "/dispatch-"
)

// child returns a job that the job starts.
func (j *Job) child(id string) *Job {
	c := j.Copy()
	c.DropServerFields()
	c.ID = id
	c.Name = id
	c.ParentID = j.ID
	return c
}

// StartsOthers reports whether the job runs nothing itself, and starts children instead.
func (j *Job) StartsOthers() bool {
	return j.Periodic != nil || j.Parameterized()
}

// IsPeriodic reports whether children of the job are launched by its schedule now.
func (j *Job) IsPeriodic() bool {
	return j.Periodic != nil && j.Periodic.Enabled && !j.Stop
}

// CheckChange returns an error if the job cannot become another version of itself: a job that runs cannot
// begin or cease to start others, because its allocations or its children would have no owner.
func (j *Job) CheckChange(now *Job) error {
	kinds := []struct {
		name     string
		had, has bool
	}{
		{"periodic", j.Periodic != nil, now.Periodic != nil},
		{"parameterized", j.ParameterizedJob != nil, now.ParameterizedJob != nil},
	}
	for _, k := range kinds {
		if k.had != k.has && !j.Stop {
			return Preconditionf("job %q: %s cannot be added or removed while the job is registered; stop it first",
				j.ID, k.name)
		}
	}
	return nil
}

// JobChildrenSummary counts the children of a job by status.
type JobChildrenSummary struct {
	Pending int64
	Running int64
	Dead    int64
}
