// Package namespace has the namespaces with their quotas, and the rules on both. A namespace needs no row: it
// exists while it has a volume, a variable or a job that is not dead. The policies of access decide what
// users may do in a namespace.
//
// The use of a quota is a computed row of the schema, which follows the allocations, the volumes and the
// namespaces in the transactions that change these.
package namespace

import (
	"iter"
	"maps"
	"slices"

	"berth/internal/codec"
	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/cluster"
)

// A namespace exists while it has a row or is used: a volume or a variable is in it, or a job that is not
// dead. default always exists.

// AlwaysThere are the indexes of a namespace without a row, and of a built-in node pool.
var AlwaysThere = structs.Indexes{CreateIndex: 1, ModifyIndex: 1}

// Get returns a namespace, nil if it does not exist. One without a row has only a name.
func Get(tx mvcc.Reader, name string) *cluster.Namespace {
	n := schema.Namespaces.Get(tx, name)
	switch {
	case n != nil:
		return n
	case name == structs.DefaultNamespace:
		return &cluster.Namespace{
			Name:        name,
			Description: "The namespace of requests that name none",
			Indexes:     AlwaysThere,
		}
	case isUsed(tx, name):
		return &cluster.Namespace{Name: name, Indexes: AlwaysThere}
	}

	return nil
}

// isUsed reports whether something is in a namespace that keeps it without a row.
func isUsed(tx mvcc.Reader, name string) bool {
	if schema.Volumes.Has(tx, name) || schema.Variables.Has(tx, name) || schema.Snapshots.Has(tx, name) {
		return true
	}
	for range liveJobs(tx, name) {
		return true
	}
	return false
}

// liveJobs yields the jobs of a namespace that are not dead.
func liveJobs(tx mvcc.Reader, ns string) iter.Seq[*structs.Job] {
	return schema.Filter(schema.Jobs.Scan(tx, ns), IsLive)
}

// IsLive reports whether a job is not dead.
func IsLive(j *structs.Job) bool {
	return j.Status != structs.JobDead
}

// All returns the namespaces by name. It goes from namespace to namespace of volumes, variables and
// jobs, which tell those without rows.
func All(tx mvcc.Reader) []*cluster.Namespace {
	found := map[string]*cluster.Namespace{}
	add := func(name string) {
		if found[name] == nil {
			found[name] = Get(tx, name)
		}
	}

	add(structs.DefaultNamespace)
	for n := range schema.Namespaces.Scan(tx) {
		add(n.Name)
	}

	// First lets a blocking query watch all rows.
	for v := schema.Volumes.First(tx); v != nil; v = schema.Volumes.After(tx, v.Namespace) {
		add(v.Namespace)
	}

	for v := schema.Snapshots.First(tx); v != nil; v = schema.Snapshots.After(tx, v.Namespace) {
		add(v.Namespace)
	}

	for v := schema.Variables.First(tx); v != nil; v = schema.Variables.After(tx, v.Namespace) {
		add(v.Namespace)
	}

	for j := schema.Jobs.First(tx); j != nil; j = schema.Jobs.After(tx, j.Namespace) {
		add(j.Namespace)
	}

	var all []*cluster.Namespace
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if found[name] != nil {
			all = append(all, found[name])
		}
	}

	return all
}

// Check returns an error if a namespace does not exist.
func Check(tx mvcc.Reader, name string) error {
	if Get(tx, name) == nil {
		return structs.Preconditionf("namespace %q does not exist; create it: berth namespace apply %s",
			name, name)
	}
	return nil
}

// CheckJob returns an error if the namespace of a job does not exist, or does not allow its drivers.
// The job may have null groups and tasks.
func CheckJob(tx mvcc.Reader, j *structs.Job) error {
	err := Check(tx, j.Namespace)
	if err != nil {
		return err
	}

	// A namespace without capabilities restricts nothing.
	can := Get(tx, j.Namespace).Capabilities
	for _, g := range j.TaskGroups {
		if g == nil {
			continue
		}

		for _, t := range g.Tasks {
			if t != nil && !can.Allows(t.Driver) {
				return structs.Preconditionf(
					"job %q: group %q: task %q: namespace %q does not allow the driver %q; see berth namespace inspect %s",
					j.ID, g.Name, t.Name, j.Namespace, t.Driver, j.Namespace)
			}
		}
	}

	return nil
}

// Apply creates a namespace or replaces its definition. An equal definition changes nothing. Jobs
// that are registered already stay, also if their drivers are no longer allowed.
func Apply(tx *mvcc.WriteTx, p *cluster.NamespaceApplyRequest) error {
	if p.Definition == nil || p.Definition.Name == "" {
		return structs.Invalidf("a namespace needs a name")
	}

	n := p.Definition.Copy()
	err := checkQuotaExists(tx, n)
	if err != nil {
		return err
	}

	old := schema.Namespaces.Get(tx, n.Name)
	if old != nil {
		n.Indexes = old.Indexes
	}

	if old == nil || !codec.SameBytes(old, n) {
		schema.Namespaces.Put(tx, n)
		followQuota(tx, old, n)
	}

	return nil
}

// Delete deletes a namespace that is not used. Its dead jobs stay until the garbage collector
// deletes them.
func Delete(tx *mvcc.WriteTx, p *cluster.NamespaceDeleteRequest) error {
	if p.Name == structs.DefaultNamespace {
		return structs.Invalidf("the namespace %q always exists; it cannot be deleted", p.Name)
	}

	if Get(tx, p.Name) == nil {
		return noNamespace(p.Name)
	}

	// Each check names one user of the namespace, so that an operator knows where to begin.
	jobs, job := CountRows(liveJobs(tx, p.Name))
	if jobs > 0 {
		return structs.Preconditionf("namespace %q has %d jobs that are not dead, such as %q; stop them first",
			p.Name, jobs, job.ID)
	}

	volumes, volume := CountRows(schema.Volumes.Scan(tx, p.Name))
	if volumes > 0 {
		return structs.Preconditionf("namespace %q has %d volumes, such as %q; delete or deregister them first",
			p.Name, volumes, volume.ID)
	}

	snapshots, snapshot := CountRows(schema.Snapshots.Scan(tx, p.Name))
	if snapshots > 0 {
		return structs.Preconditionf("namespace %q has %d snapshots of volumes, such as %q; delete them first",
			p.Name, snapshots, snapshot.Name)
	}

	schedules, schedule := CountRows(schema.SnapshotSchedules.Scan(tx, p.Name))
	if schedules > 0 {
		return structs.Preconditionf("namespace %q has %d schedules of snapshots, such as %q; delete them first",
			p.Name, schedules, schedule.Name)
	}

	stored, variable := CountRows(schema.Variables.Scan(tx, p.Name))
	if stored > 0 {
		return structs.Preconditionf("namespace %q has %d variables, such as %q; purge them first",
			p.Name, stored, variable.Path)
	}

	row := schema.Namespaces.Get(tx, p.Name)
	schema.Namespaces.Delete(tx, row)
	followQuota(tx, row, nil)
	return nil
}

func noNamespace(name string) error {
	return structs.NotFoundf("there is no namespace %q", name)
}

// CountRows returns the number of rows and the first of them.
func CountRows[T any](rows iter.Seq[*T]) (n int, first *T) {
	for r := range rows {
		if first == nil {
			first = r
		}
		n++
	}
	return n, first
}
