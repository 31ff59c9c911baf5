package scheduler

import (
	"fmt"
	"strings"
	"testing"

	"berth/internal/codec"
	"berth/scheduler/rejects"
	"berth/structs"
)

func encodedBytes(t *testing.T, v any) int {
	t.Helper()
	b, err := codec.Encode(v)
	if err != nil {
		t.Fatal(err)
	}
	return len(b)
}

// manyTexts returns n long texts, each with a number.
func manyTexts(n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("x%04d%s", i, strings.Repeat("y", 240)))
	}
	return out
}

// groups gives a job n groups like its first.
func groups(n int) func(*structs.Job) {
	return func(j *structs.Job) {
		g := *j.TaskGroups[0]
		j.TaskGroups = nil
		for i := range n {
			c := g
			c.Name = fmt.Sprint("g", i)
			j.TaskGroups = append(j.TaskGroups, &c)
		}
	}
}

func TestProcess_APlanDoesNotRepeatTheTextsOfItsJob(t *testing.T) {
	for name, edit := range map[string]func(*structs.Job){
		"datacenters": func(j *structs.Job) { j.Datacenters = manyTexts(structs.MaxListed) },
		"constraint": func(j *structs.Job) {
			j.Constraints = []*structs.Constraint{{
				LTarget: "${node.class}",
				Operand: "=",
				RTarget: strings.Repeat("z", structs.MaxText),
			}}
		},
	} {
		w := newFixture(t)
		w.nodes("n1")
		j := aJob("big", structs.JobService, groups(400), edit)
		w.job(j)
		p := w.process(w.eval("big"))
		if len(p.Eval.FailedTGAllocs) != 400 {
			t.Fatalf("%s: %d groups have a reason", name, len(p.Eval.FailedTGAllocs))
		}
		for _, m := range p.Eval.FailedTGAllocs {
			if r := m.Rejections[0]; len(r.Reason) > structs.MaxReason+len("…") || r.Nodes != 1 {
				t.Fatalf("%s: %d nodes, %d bytes: %s", name, r.Nodes, len(r.Reason), r.Reason)
			}
		}
		job, plan := encodedBytes(t, j), encodedBytes(t, p)
		t.Logf("%s: a job of %d bytes, a plan of %d", name, job, plan)
		if plan > 2<<20 {
			t.Errorf("%s: a job of %d bytes makes a plan of %d", name, job, plan)
		}
	}
}

// TestProcess_NamesTheReasonsOfMostNodes, and counts the nodes of all others.
func TestProcess_NamesTheReasonsOfMostNodes(t *testing.T) {
	for n, want := range map[int]int{1: structs.MaxReasons, 1000: 2} {
		w := newFixture(t)
		for i, why := range manyTexts(40) {
			for copy := range 1 + i%2 {
				node := aNode(fmt.Sprint("n", i, "-", copy))
				node.NodeClass = why
				node.Drivers["exec"] = &structs.DriverInfo{Detected: true, HealthDescription: why}
				w.node(node)
			}
		}
		w.job(aJob("j", structs.JobService, groups(n)))
		p := w.process(w.eval("j"))
		m := p.Eval.FailedTGAllocs["g0"]
		sum := 0
		for i, r := range m.Rejections {
			sum += r.Nodes
			if i < want && r.Nodes != 2 {
				t.Errorf("%d groups: %d nodes in place %d: %s", n, r.Nodes, i, r.Reason)
			}
		}
		if last := m.Rejections[len(m.Rejections)-1]; len(m.Rejections) != want+1 || sum != 60 ||
			last.Filter != rejects.OtherReasons {
			t.Errorf("%d groups: %d reasons of %d nodes, the last %+v", n, len(m.Rejections), sum, last)
		}
		if len(m.ConstraintFiltered) != want+1 ||
			m.ConstraintFiltered[rejects.OtherReasons] != 60-2*want {
			t.Errorf("%d groups: %d entries, %d others", n, len(m.ConstraintFiltered),
				m.ConstraintFiltered[rejects.OtherReasons])
		}
		again := rejects.CountOf(m).ToMetric(want)
		got := again.Rejections[len(again.Rejections)-1]
		if len(again.Rejections) != want+1 || got.Nodes != 60-2*want {
			t.Errorf("%d groups: made anew, the last of %d is %+v", n, len(again.Rejections), got)
		}
		if size := encodedBytes(t, p); size > structs.MaxEntry/2 {
			t.Errorf("%d groups: the plan has %d bytes", n, size)
		}
	}
}

// TestProcess_SplitsAPlanByItsBytes: each allocation keeps the reasons of the nodes that were tried before.
func TestProcess_SplitsAPlanByItsBytes(t *testing.T) {
	w := newFixture(t)
	for i, why := range manyTexts(200) {
		node := aNode(fmt.Sprintf("n%03d", i))
		node.Drivers["exec"] = &structs.DriverInfo{Detected: true, HealthDescription: why}
		w.node(node)
	}
	node := aNode("large")
	node.NodeResources.CPU.CpuShares, node.NodeResources.Memory.MemoryMB = 1<<26, 1<<26
	node.NodeResources.Disk.DiskMB = 1 << 30
	w.node(node)
	w.job(aJob("j", structs.JobService, func(j *structs.Job) {
		j.TaskGroups[0].Count = 2500
	}))
	p := w.process(w.eval("j"))
	size := encodedBytes(t, p)
	t.Logf("%d allocations, %d bytes", len(p.Place), size)
	if len(p.Place) == 0 ||
		len(p.Place) >= structs.MaxPlaced || size > structs.MaxEntry/2 {
		t.Errorf("%d allocations, %d bytes", len(p.Place), size)
	}
	if p.Eval.Again != structs.EvalMore || p.Eval.Status != structs.EvalPending {
		t.Errorf("the evaluation is %s, %q", p.Eval.Status, p.Eval.Again)
	}
}
