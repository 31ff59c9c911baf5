package allocrunner

import (
	"reflect"
	"strings"
	"testing"
	"testing/synctest"

	"berth/client/driver"
	"berth/structs"
)

func TestTaskVariables_ExpandReferences(t *testing.T) {
	alloc := testAlloc("web")
	alloc.Job.Meta = map[string]string{"owner": "job", "tier": "job"}
	g := alloc.Job.TaskGroups[0]
	g.Meta = map[string]string{"tier": "group"}
	task := g.Tasks[0]
	task.Meta = map[string]string{"a-b": "task"}
	task.Resources = &structs.Resources{CPU: 500, MemoryMB: 64}
	task.Env = map[string]string{
		"HOME":      "${NOMAD_TASK_DIR}/home",
		"NODE":      "${node.unique.name}/${attr.kernel.name}/${meta.rack}",
		"SHELL_VAR": "${unknown}",
	}
	node := &structs.Node{
		ID:         "n1",
		Name:       "node1",
		Datacenter: "dc1",
		NodeClass:  "big",
		Attributes: map[string]string{"kernel.name": "linux"},
		Meta:       map[string]string{"rack": "r1"},
	}
	env, vars := taskFacts{alloc, g, task, node, driver.Inside, "global"}.variables()
	for _, name := range []string{"NOMAD_", "BERTH_"} {
		for k, want := range map[string]string{
			"ALLOC_ID": "alloc1", "ALLOC_NAME": "job.g[0]", "ALLOC_INDEX": "0", "TASK_NAME": "web", "GROUP_NAME": "g",
			"JOB_ID": "job", "JOB_NAME": "job", "ALLOC_DIR": "/alloc", "TASK_DIR": "/local", "SECRETS_DIR": "/secrets",
			"NAMESPACE": "default", "DC": "dc1", "REGION": "global", "CPU_LIMIT": "500", "MEMORY_LIMIT": "64",
			"META_owner": "job", "META_TIER": "group", "META_a_b": "task", "META_A_B": "task",
		} {
			if got := env[name+k]; got != want {
				t.Errorf("%s%s = %q, want %q", name, k, got, want)
			}
		}
	}
	for in, want := range map[string]string{
		"${NOMAD_ALLOC_ID}/x": "alloc1/x", "${ node.class }": "big", "${env.HOME}": "/local/home",
		"${HOME}": "/local/home",
		"${NODE}": "node1/linux/r1", "${SHELL_VAR}": "${unknown}", "$NOMAD_ALLOC_ID": "$NOMAD_ALLOC_ID", "${": "${",
		"plain": "plain",
	} {
		if got := vars.expand(in); got != want {
			t.Errorf("%s: got %q, want %q", in, got, want)
		}
	}
	in := map[string]any{
		"args":        []any{"${NOMAD_JOB_ID}", 1, true},
		"m":           map[string]any{"k": "${JOB}"},
		"deep":        []any{map[string]any{"x": map[string]any{"y": "${NOMAD_DC}"}}},
		"${NOMAD_DC}": nil,
	}
	want := map[string]any{
		"args":        []any{"job", 1, true},
		"m":           map[string]any{"k": "${JOB}"},
		"deep":        []any{map[string]any{"x": map[string]any{"y": "dc1"}}},
		"${NOMAD_DC}": nil,
	}
	if got := vars.expandMap(in); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if vars.expandMap(nil) != nil {
		t.Error("a nil config does not stay nil")
	}
}

// A job may replace variables of its environment, not the names by which drivers know it.
func TestRunner_TellsTheDriverTheOriginOfATask(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a := fx.agent()
		defer a.stop()
		alloc := testAlloc("web")
		alloc.Job.Name = "the job"
		alloc.Job.TaskGroups[0].Tasks[0].Env = map[string]string{"NOMAD_JOB_ID": "other"}
		a.new(alloc)
		synctest.Wait()
		cfg := fx.machine.Task("alloc1/web").Config
		want := driver.Origin{
			Namespace: "default",
			JobID:     "job",
			JobName:   "the job",
			Group:     "g",
			Alloc:     "job.g[0]",
		}
		if cfg.Of != want || cfg.Env["NOMAD_JOB_ID"] != "other" {
			t.Errorf("got %+v, %v", cfg.Of, cfg.Env)
		}
	})
}

func FuzzExpand(f *testing.F) {
	v := variables{"a": "${b}", "b": "x"}
	for _, s := range []string{"${a}", "${${a}}", "${", "}${b", "$${a}", "${ a }${c}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := v.expand(s)
		if !strings.Contains(s, "${") && got != s {
			t.Errorf("%q became %q", s, got)
		}
	})
}
