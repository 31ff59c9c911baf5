package job

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"berth/endpoints/injection"
	"berth/internal/spelling"
	"berth/server/nodeconn"
	"berth/state"
	"berth/state/namespace"
	"berth/structs"
	"berth/structs/defaults"
	"berth/structs/nodecalls"
	"berth/structs/validate"
	"berth/structs/validate/field"
)

// The bounds of the calls of nodes for one driver of a job. A user waits for the check. Three nodes are
// enough, since one of them has to answer.
const (
	driverCheckTimeout = 5 * time.Second
	driverCheckNodes   = 3
)

// Validate checks a job. Its faults are no error.
func (j Jobs) Validate(
	ctx context.Context,
	req *structs.JobValidateRequest,
) (*structs.JobValidateResponse, error) {
	// The check makes no log entry.
	if req.Job == nil {
		return nil, structs.Invalidf("Job: nothing is given; expected the job to check")
	}

	job, err := copyJob(req.Job)
	if err != nil {
		return nil, err
	}

	// The steps are admitJob's, but each goes on after a fault: the user gets all of them at once.
	job.Namespace = cmp.Or(job.Namespace, req.RequestNamespace())
	job.Region = cmp.Or(job.Region, j.Region)
	warnings := field.JoinFaults(validate.JobWarnings(job))
	defaults.Canonicalize(job)
	j.WorkloadLogins.Add(job)
	tx := j.Store.Read()
	c := driverCheck{
		nodes:  j.Nodes,
		known:  knownDrivers(tx),
		faults: injection.AddSidecars(job),
	}

	// The state cannot be read by the package that checks jobs, so this check is apart.
	err = namespace.CheckJob(tx, job)
	if err != nil {
		c.faults.Add(structs.Cut(err.Error(), structs.MaxReason))
	}

	c.checkJob(ctx, job)
	ruled, err := j.checkRules(ctx, tx, job, c.faults)
	if err != nil {
		return nil, err
	}

	return &structs.JobValidateResponse{
		// Without the check of a config by its driver, the answer must not claim one.
		DriverConfigValidated: len(c.warnings) == 0 && !c.skipped,
		ValidationErrors:      c.faults.Lines(),
		Error:                 c.faults.String(),
		Warnings: joinWarnings(warnings, field.JoinFaults(c.warnings), boundMemory(tx, job),
			largeMemory(tx, job), ruled),
	}, nil
}

// knownDrivers returns nodes that are up for each driver that they know, healthy ones first. It is nil if no
// node is up.
func knownDrivers(tx *state.ReadTx) map[string][]string {
	var known map[string][]string
	for n := range state.Nodes(tx) {
		// Only such a node answers a call.
		if n.Status != structs.NodeReady {
			continue
		}

		if known == nil {
			known = map[string][]string{}
		}

		for name, info := range n.Drivers {
			ids := known[name]
			switch {
			// A driver that is unhealthy may know its schema nevertheless.
			case info.Healthy:
				ids = slices.Insert(ids, 0, n.ID)
			default:
				ids = append(ids, n.ID)
			}

			// The healthy ones are before the others, so the bound drops unhealthy ones first.
			known[name] = ids[:min(len(ids), driverCheckNodes)]
		}
	}

	return known
}

// driverCheck checks the drivers of a job's tasks. The job may have faults of its own, such as null tasks.
type driverCheck struct {
	nodes    nodeconn.Caller
	known    map[string][]string
	faults   *field.Faults
	warnings []string
	skipped  bool // a task is one too many, or only its node knows values of its config
}

// taskOf is a task with the path of its faults.
type taskOf struct {
	*structs.Task
	path string
	open bool // only its node knows values of its config
}

// checkJob has each config checked by a node with its driver. A driver that no node has is a warning: a node
// with it may come later, and the job waits for that.
func (c *driverCheck) checkJob(ctx context.Context, job *structs.Job) {
	// A cluster without nodes is no fault of the job.
	if c.known == nil {
		c.warnings = append(c.warnings, "no node is up, so the drivers of the tasks are not checked")
		return
	}
	// The order makes the warnings of two checks of one job equal.
	byDriver := c.tasksByDriver(job)
	for _, name := range slices.Sorted(maps.Keys(byDriver)) {
		if c.known[name] == nil {
			c.warnOfDriver(name, byDriver[name])
			continue
		}
		c.checkConfigs(ctx, name, byDriver[name])
	}
}

// missingDrivers returns warnings of the tasks whose driver is on no node that is up: the job is accepted and
// waits for such a node. It reads no further nodes once it has found each driver.
func missingDrivers(tx *state.ReadTx, job *structs.Job) string {
	c := driverCheck{}
	byDriver := c.tasksByDriver(job)
	missing := maps.Clone(byDriver)
	for n := range state.Nodes(tx) {
		if len(missing) == 0 {
			return ""
		}

		if n.Status == structs.NodeReady {
			maps.DeleteFunc(missing, func(name string, _ []taskOf) bool { return n.Drivers[name] != nil })
		}
	}

	c.known = knownDrivers(tx)
	if c.known == nil {
		return "" // the evaluation says so
	}

	for _, name := range slices.Sorted(maps.Keys(missing)) {
		c.warnOfDriver(name, missing[name])
	}

	return field.JoinFaults(c.warnings)
}

// tasksByDriver groups the tasks of a job.
func (c *driverCheck) tasksByDriver(job *structs.Job) map[string][]taskOf {
	byDriver := map[string][]taskOf{}
	for _, g := range firstOf(c, job.TaskGroups, structs.MaxGroups) {
		if g == nil {
			continue
		}
		// A job with faults may have null groups and tasks, and more than a valid one.
		for _, t := range firstOf(c, g.Tasks, structs.MaxTasks) {
			if t != nil && t.Driver != "" {
				byDriver[t.Driver] = append(byDriver[t.Driver], taskOf{
					Task: t,
					path: taskPath(job, g, t),
				})
			}
		}
	}
	return byDriver
}

// firstOf returns the first elements of a list. It notes that others are not checked.
func firstOf[T any](c *driverCheck, list []T, most int) []T {
	c.skipped = c.skipped || len(list) > most
	return list[:min(len(list), most)]
}

// taskPath returns the path of a task, with the names cut as in the other faults of the job.
func taskPath(j *structs.Job, g *structs.TaskGroup, t *structs.Task) string {
	return fmt.Sprintf("job %q: group %q: task %q: ", structs.Cut(j.ID, structs.MaxQuoted),
		structs.Cut(g.Name, structs.MaxQuoted), structs.Cut(t.Name, structs.MaxQuoted))
}

// warnOfDriver warns of tasks whose driver is on no node that is up. A node that has it may come later.
func (c *driverCheck) warnOfDriver(name string, tasks []taskOf) {
	known := slices.Sorted(maps.Keys(c.known))
	hint := "no node that is up has a driver"
	if len(known) > 0 {
		hint = "the nodes that are up have: " + structs.Cut(strings.Join(known, ", "), structs.MaxReason)
	}
	// A wrong name is the more likely cause than a missing driver.
	if near := spelling.Closest(name, known); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	for _, t := range tasks {
		c.warnings = append(c.warnings, fmt.Sprintf("%sdriver %q is on no node that is up; %s",
			t.path, structs.Cut(name, structs.MaxQuoted), hint))
	}
}

// checkConfigs lets a node check the configs of tasks with one driver.
func (c *driverCheck) checkConfigs(ctx context.Context, name string, tasks []taskOf) {
	req := &nodecalls.ClientDriverValidateRequest{Driver: name}
	var asked []taskOf
	for _, t := range tasks {
		// Another check reports a config that nests too deeply. It is not sent.
		if !field.NestsWithin(t.Config, structs.MaxConfigNesting) {
			c.skipped = true
			continue
		}

		// The values of references are known when the task starts. Until then the config is open.
		t.open = nodecalls.HasReference(t.Config)
		c.skipped = c.skipped || t.open
		asked = append(asked, t)
		req.Configs = append(req.Configs, t.Config)
	}

	if len(asked) == 0 {
		return
	}

	to := nodeconn.Target{
		Nodes: c.nodes,
		IDs:   c.known[name],
		Limit: driverCheckTimeout,
	}

	answer, err := nodeconn.Call(ctx, to, nodecalls.ClientDriverValidate, req)
	// An answer of another length cannot be assigned to the tasks.
	if err == nil && len(answer.Faults) != len(asked) {
		err = structs.Internalf("the node answered for %d of %d tasks", len(answer.Faults), len(asked))
	}

	// A node that fails says nothing about the job, so it is a warning.
	if err != nil {
		c.warnings = append(c.warnings, fmt.Sprintf(
			"the configs of tasks with the driver %q are not checked: %v",
			structs.Cut(name, structs.MaxQuoted), err))
		return
	}

	for i, t := range asked {
		if answer.Faults[i] == "" || t.open && !answer.LeavesReferences {
			// A node of an earlier version takes a reference for a value of the wrong type, so its faults say
			// nothing about an open config.
			continue
		}

		for line := range strings.SplitSeq(answer.Faults[i], "\n") {
			// The path of the driver begins at the config, and the other faults of the job at the job.
			c.faults.Add(t.path + "config: " + strings.TrimPrefix(line, "config."))
		}
	}
}
