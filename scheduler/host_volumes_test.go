package scheduler

import (
	"strings"
	"testing"

	"berth/structs"
)

// withHostVolume returns a node that offers a directory under the name "data".
func withHostVolume(id string, readOnly bool) *structs.Node {
	n := aNode(id)
	n.HostVolumes = map[string]*structs.HostVolume{"data": {Path: "/srv/data", ReadOnly: readOnly}}
	return n
}

// hostVolume lets the group of a job use the host volume "data".
func hostVolume(mode structs.CSIAccessMode, readOnly bool) func(*structs.Job) {
	return func(j *structs.Job) {
		j.TaskGroups[0].Volumes = map[string]*structs.VolumeRequest{"d": {
			Name:       "d",
			Type:       structs.VolumeTypeHost,
			Source:     "data",
			AccessMode: mode,
			ReadOnly:   readOnly,
		}}
	}
}

func TestHostVolumes_OnNodesThatOfferThem(t *testing.T) {
	for _, c := range []struct {
		name string
		node *structs.Node
		edit func(*structs.Job)
		want string // the rejection, "" if it is placed
	}{
		{"it is there", withHostVolume("n1", false), hostVolume("", false), ""},
		{"read only", withHostVolume("n1", true), hostVolume("", true), ""},
		{"a writer of a read-only one", withHostVolume("n1", true), hostVolume("", false),
			`host-volume: host volume "data" is read-only on the node (1)`},
		{"it is not there", aNode("n1"), hostVolume("", false),
			`host-volume: the node has no host volume "data" (1)`},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newFixture(t)
			w.node(c.node)
			w.job(aJob("a", structs.JobService, c.edit))
			if got := rejections(w.run("a"), "g"); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestHostVolumes_HaveOneWriterWhereAGroupDemandsIt(t *testing.T) {
	const single = structs.CSISingleNodeSingleWriter
	for _, c := range []struct {
		name          string
		first, second func(*structs.Job)
		want          string // where the second job is
	}{
		{"two that demand nothing", hostVolume("", false), hostVolume("", false), "0@n1"},
		{"the first demands it", hostVolume(single, false), hostVolume("", false), ""},
		{"the second demands it", hostVolume("", false), hostVolume(structs.CSISingleNodeWriter, false), ""},
		{"a reader beside it", hostVolume(single, false), hostVolume("", true), "0@n1"},
		{"a reader before it", hostVolume("", true), hostVolume(single, false), "0@n1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newFixture(t)
			w.node(withHostVolume("n1", false))
			w.job(aJob("a", structs.JobService, c.first))
			w.run("a")
			w.wantPlaced("a", "0@n1")
			w.job(aJob("b", structs.JobService, c.second))
			p := w.run("b")
			w.wantPlaced("b", c.want)
			if why := rejections(p, "g"); (why == "") != (c.want != "") ||
				why != "" && !strings.HasPrefix(why, `host-volume: host volume "data" has a writer`) {
				t.Errorf("the reason is %q", why)
			}
			if c.want != "" {
				return
			}
			w.client(w.allocs("a")[0], structs.AllocFailed)
			w.job(aJob("a", structs.JobService, c.first, count(0)))
			w.run("a")
			w.run("b")
			w.wantPlaced("b", "0@n1")
		})
	}
}

// Two allocations of one plan exclude each other, too.
func TestHostVolumes_OneWriterOfOneJob(t *testing.T) {
	w := newFixture(t)
	w.node(withHostVolume("n1", false))
	w.node(withHostVolume("n2", false))
	edit := hostVolume(structs.CSISingleNodeSingleWriter, false)
	w.job(aJob("a", structs.JobService, count(3), edit))
	p := w.run("a")
	if n := len(w.allocs("a")); n != 2 || w.allocs("a")[0].NodeID == w.allocs("a")[1].NodeID {
		t.Errorf("placed %q", w.placed("a"))
	}
	if got, want := rejections(p, "g"), `host-volume: host volume "data" has a writer of this job (2)`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A successor takes the volume over from the allocation that its plan stops.
func TestHostVolumes_AreTakenOverByASuccessor(t *testing.T) {
	w := newFixture(t)
	w.node(withHostVolume("n1", false))
	edit := hostVolume(structs.CSISingleNodeSingleWriter, false)
	w.job(aJob("a", structs.JobService, edit))
	w.run("a")
	w.job(aJob("a", structs.JobService, edit, cpu(200)))
	w.run("a")
	w.wantPlaced("a", "0@n1")
}

// A canary may be beside an allocation of the older version that does not use the volume.
func TestHostVolumes_AnOlderVersionWithoutThemIsNoWriter(t *testing.T) {
	d := &deployments{newFixture(t)}
	d.node(withHostVolume("n1", false))
	d.job(aJob("web", structs.JobService))
	d.plan()
	d.health(d.allocs("web")[0], true, structs.AllocRunning)
	d.plan()
	d.job(aJob("web", structs.JobService, hostVolume(structs.CSISingleNodeSingleWriter, false),
		func(j *structs.Job) {
			j.TaskGroups[0].Update = new(structs.DefaultUpdateStrategy())
			j.TaskGroups[0].Update.Canary = 1
		}))
	p := d.process(d.eval("web"))
	if len(p.Place) != 1 {
		t.Errorf("the canary is not placed: %s", rejections(p, "g"))
	}
}
