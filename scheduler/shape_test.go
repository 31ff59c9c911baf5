package scheduler

import (
	"fmt"
	"testing"

	"berth/structs"
)

// TestShape_DiffersWithTheDemand: two jobs of one shape are rejected alike, so nothing that decides may be
// left out of it.
func TestShape_DiffersWithTheDemand(t *testing.T) {
	w := newFixture(t)
	w.node(withPorts("n1", 9))
	w.volume("db", "hostpath")
	shapes := map[string]string{}
	shape := func(name string, edit ...func(*structs.Job)) string {
		t.Helper()
		id := fmt.Sprint("job-", len(shapes), "-", name)
		w.job(aJob(id, structs.JobService, append(edit, cpu(100_000))...))
		p := w.process(w.eval(id))
		if p.Blocked == nil {
			t.Fatalf("%s was placed", name)
		}
		return p.Blocked.Shape
	}
	for name, edit := range map[string]func(*structs.Job){
		"as it is":   func(*structs.Job) {},
		"memory":     func(j *structs.Job) { j.TaskGroups[0].Tasks[0].Resources.MemoryMB++ },
		"disk":       func(j *structs.Job) { j.TaskGroups[0].EphemeralDisk = &structs.EphemeralDisk{SizeMB: 777} },
		"driver":     func(j *structs.Job) { j.TaskGroups[0].Tasks[0].Driver = "other" },
		"datacenter": func(j *structs.Job) { j.Datacenters = []string{"dc*"} },
		"pool":       func(j *structs.Job) { j.NodePool = structs.AllNodePools },
		"constraint": constraints(&structs.Constraint{LTarget: "${attr.a}", Operand: "is_set"}),
		"of the task": func(j *structs.Job) {
			j.TaskGroups[0].Tasks[0].Constraints = []*structs.Constraint{{LTarget: "${attr.a}", Operand: "is_set"}}
		},
		"static port":   port("a", 80),
		"dynamic port":  port("a", 0),
		"host network":  port("a", 0, private),
		"volume":        volume("db", structs.CSISingleNodeWriter, false),
		"volume's mode": volume("db", structs.CSIMultiNodeReader, false),
		"device":        demand("gpu", 1),
		"two devices":   demand("gpu", 2),
		"other device":  demand("fpga", 1),
		"device's constraint": demand("gpu", 1, func(d *structs.RequestedDevice) {
			d.Constraints = []*structs.Constraint{{LTarget: "${device.model}", Operand: "=", RTarget: "x1"}}
		}),
	} {
		s := shape(name, edit)
		if s == "" {
			t.Errorf("%s: has no shape", name)
		}
		if again := shape(name, edit, func(j *structs.Job) {
			j.Name, j.Meta = "another",
				map[string]string{"x": "y"}
		}, count(3)); again != s {
			t.Errorf("%s: shape of an equal job is %s, want %s", name, again, s)
		}
		for other, o := range shapes {
			if o == s {
				t.Errorf("%s and %s have one shape", name, other)
			}
		}
		shapes[name] = s
	}
	for name, edit := range map[string]func(*structs.Job){
		"distinct hosts":         constraints(&structs.Constraint{Operand: structs.ConstraintDistinctHosts}),
		"a volume for each":      volume("db", structs.CSISingleNodeWriter, true),
		"on every node":          func(j *structs.Job) { j.Type = structs.JobSystem },
		"what must make way too": nil,
	} {
		if edit == nil {
			w.job(aJob("upd", structs.JobService))
			w.run("upd")
			w.job(aJob("upd", structs.JobService, cpu(100_000)))
			if p := w.process(w.eval("upd")); p.Blocked == nil || p.Blocked.Shape != "" {
				t.Errorf("%s: %+v", name, p.Blocked)
			}
		} else if s := shape(name, edit); s != "" {
			t.Errorf("%s: has shape %s although it depends on the job", name, s)
		}
	}
}
