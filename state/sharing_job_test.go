package state_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
	"unsafe"

	"berth/state"
	"berth/structs"
)

// aFullJob returns a job with all parts that jobs share. Two such jobs differ only in their IDs.
func aFullJob(id string) *structs.Job {
	j := aJob(id, structs.JobBatch)
	linux := []*structs.Constraint{{LTarget: "${attr.kernel.name}", RTarget: "linux", Operand: "="}}
	restart := structs.RestartPolicy{Attempts: 3, Delay: time.Second, Mode: "fail"}
	j.Datacenters = []string{"dc1"}
	j.Meta = map[string]string{"owner": "storage"}
	j.Constraints = linux
	j.Update = &structs.UpdateStrategy{MaxParallel: 1}
	g := j.TaskGroups[0]
	g.Meta = map[string]string{"level": "group"}
	g.Constraints = linux
	g.RestartPolicy = &restart
	g.ReschedulePolicy = &structs.ReschedulePolicy{Attempts: 1}
	g.Update = &structs.UpdateStrategy{MaxParallel: 2}
	g.Migrate = &structs.MigrateStrategy{MaxParallel: 1}
	g.EphemeralDisk = &structs.EphemeralDisk{SizeMB: 300}
	t := g.Tasks[0]
	t.Driver = strings.Clone("exec") // not the copy that all constants share
	t.Env = map[string]string{"KIND": strings.Clone("batch")}
	t.Meta = map[string]string{"level": "task"}
	t.Constraints = linux
	t.RestartPolicy = &restart
	t.LogConfig = &structs.LogConfig{MaxFiles: 10, MaxFileSizeMB: 10}
	return j
}

// partsOf returns the addresses of the parts that equal jobs share.
func partsOf(j *structs.Job) map[string]unsafe.Pointer {
	g := j.TaskGroups[0]
	t := g.Tasks[0]
	shared := map[string]any{
		"meta":                 j.Meta,
		"constraint":           j.Constraints[0],
		"update":               j.Update,
		"group meta":           g.Meta,
		"group constraint":     g.Constraints[0],
		"group restart policy": g.RestartPolicy,
		"reschedule policy":    g.ReschedulePolicy,
		"group update":         g.Update,
		"migrate":              g.Migrate,
		"ephemeral disk":       g.EphemeralDisk,
		"task meta":            t.Meta,
		"task constraint":      t.Constraints[0],
		"task restart policy":  t.RestartPolicy,
		"resources":            t.Resources,
		"log configuration":    t.LogConfig,
	}
	parts := map[string]unsafe.Pointer{
		"datacenters": unsafe.Pointer(unsafe.SliceData(j.Datacenters)),
		"driver":      unsafe.Pointer(unsafe.StringData(t.Driver)),
		"variable":    unsafe.Pointer(unsafe.StringData(t.Env["KIND"])),
	}
	for name, part := range shared {
		parts[name] = reflect.ValueOf(part).UnsafePointer()
	}
	return parts
}

func TestJobRegister_SharesThePartsOfEqualJobs(t *testing.T) {
	w := newFixture(t)
	var last *structs.Job
	shared := map[string]bool{}
	for n := range manyRows { // a part may lose its place in the interner to another one
		id := fmt.Sprint("j", n)
		do(w, state.JobRegister, &structs.JobRegisterRequest{Job: aFullJob(id)})
		j := state.Job(w.Store.Read(), structs.DefaultNamespace, id)
		version := state.JobVersion(w.Store.Read(), structs.DefaultNamespace, id, 0)
		if &version.TaskGroups[0] != &j.TaskGroups[0] {
			t.Error("a job and its newest version have their own groups")
		}
		if want := aFullJob(id); !reflect.DeepEqual(j.TaskGroups, want.TaskGroups) {
			t.Errorf("stored the groups %+v, want %+v", j.TaskGroups[0], want.TaskGroups[0])
		}
		if last != nil {
			before := partsOf(last)
			for name, at := range partsOf(j) {
				shared[name] = shared[name] || at == before[name]
			}
		}
		last = j
	}
	for name, found := range shared {
		if !found {
			t.Errorf("all jobs have their own copies of an equal %s", name)
		}
	}
}
