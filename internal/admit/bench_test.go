package admit

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/cel-go/cel"

	"berth/structs"
	"berth/structs/admission"
)

// jobWith returns a job with a number of tasks, ten in a group.
func jobWith(tasks int) *structs.Job {
	job := &structs.Job{Namespace: "default", ID: "large"}
	for g := range tasks / 10 {
		group := &structs.TaskGroup{Name: fmt.Sprintf("g%d", g)}
		for t := range 10 {
			group.Tasks = append(group.Tasks, &structs.Task{
				Name:      fmt.Sprintf("t%d", t),
				Driver:    "docker",
				Config:    map[string]any{"image": "registry.example.com/app:1", "args": []any{"-v", "x"}},
				Env:       map[string]string{"A": "1", "B": "2", "C": "3"},
				Resources: &structs.Resources{CPU: 100, MemoryMB: 256},
			})
		}
		job.TaskGroups = append(job.TaskGroups, group)
	}
	return job
}

const imageRule = `job.TaskGroups.all(g, g.Tasks.all(t,
	t.Driver != "docker" || t.Config.image.startsWith("registry.example.com/")))`

// BenchmarkEvaluate compares the ways in which an expression can see a job: as the struct that it is, and as
// maps made from its JSON (ADR 82).
func BenchmarkEvaluate(b *testing.B) {
	job := jobWith(1000)
	b.Run("struct", func(b *testing.B) {
		e := New()
		rule := &admission.Rule{On: admission.OnJob, Expression: imageRule}
		b.ReportAllocs()
		for b.Loop() {
			out := e.Evaluate(b.Context(), rule, OfJob(job, nil))
			if !out.Holds {
				b.Fatal(out.Fault)
			}
			b.ReportMetric(float64(out.Cost), "cost")
		}
	})

	b.Run("maps", func(b *testing.B) {
		env, err := cel.NewEnv(cel.Variable("job", cel.DynType))
		if err != nil {
			b.Fatal(err)
		}
		tree, issues := env.Compile(imageRule)
		if issues.Err() != nil {
			b.Fatal(issues.Err())
		}
		program, err := env.Program(tree, cel.CostLimit(MaxCost))
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			text, err := json.Marshal(job)
			if err != nil {
				b.Fatal(err)
			}
			var maps map[string]any
			err = json.Unmarshal(text, &maps)
			if err != nil {
				b.Fatal(err)
			}
			_, _, err = program.Eval(map[string]any{"job": maps})
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}
