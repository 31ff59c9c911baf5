package allocrunner

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/structs"
)

func TestHistory_FollowsTheRestartPolicy(t *testing.T) {
	now := time.Unix(1000, 0)
	fail := structs.RestartPolicy{Attempts: 2, Interval: time.Minute, Delay: 5 * time.Second, Mode: "fail"}
	wait := fail
	wait.Mode = "delay"
	used := history{Since: now.Add(-20 * time.Second), Count: 2}
	for _, tc := range []struct {
		name   string
		h      history
		p      structs.RestartPolicy
		finite bool
		e      ending
		want   decision
		count  int
	}{
		{"a batch task that succeeded", history{}, fail, true, ending{ok: true}, decision{}, 0},
		{"a service task that succeeded", history{}, fail, false, ending{ok: true, reason: "r"}, decision{restart: true, delay: 5 * time.Second, reason: "r"}, 1},
		{"a first failure", history{}, fail, true, ending{reason: "r"}, decision{restart: true, delay: 5 * time.Second, reason: "r"}, 1},
		{"one too many", used, fail, true, ending{reason: "r"}, decision{failed: true, reason: "exceeded 2 restarts in 1m0s: r"}, 3},
		{"one too many, long ago", history{Since: now.Add(-2 * time.Minute), Count: 2}, fail, true, ending{reason: "r"},
			decision{restart: true, delay: 5 * time.Second, reason: "r"}, 1},
		{"one too many, to wait", used, wait, true, ending{reason: "r"},
			decision{restart: true, delay: 40 * time.Second, reason: "r; attempts of this interval are used up"}, 0},
		{"no attempts", history{}, structs.RestartPolicy{Mode: "fail"}, false, ending{ok: true, reason: "r"},
			decision{failed: true, reason: "exceeded 0 restarts in 0s: r"}, 1},
		{"what never can", history{}, fail, false, ending{final: true, reason: "r"}, decision{failed: true, reason: "r"}, 0},
	} {
		h := tc.h
		if got := h.decide(tc.p, tc.finite, now, tc.e); got != tc.want || h.Count != tc.count {
			t.Errorf("%s: got %+v, count %d; want %+v, count %d", tc.name, got, h.Count, tc.want, tc.count)
		}
	}
}

func TestRestartPolicy_OfTheTaskWins(t *testing.T) {
	own, groups := &structs.RestartPolicy{Attempts: 1}, &structs.RestartPolicy{Attempts: 2}
	for _, tc := range []struct {
		g, t *structs.RestartPolicy
		want structs.RestartPolicy
	}{{groups, own, *own}, {groups, nil, *groups}, {nil, nil, defaultRestart}} {
		if got := restartPolicy(&structs.TaskGroup{RestartPolicy: tc.g}, &structs.Task{RestartPolicy: tc.t}); got != tc.want {
			t.Errorf("got %+v, want %+v", got, tc.want)
		}
	}
}

func TestSummarizeTasks_ByTheirStates(t *testing.T) {
	p, r := structs.TaskPending, structs.TaskRunning
	for _, tc := range []struct {
		states string // one word per task; a ! marks it as failed
		want   string
	}{
		{p + " " + p, structs.AllocPending}, {p + " " + r, structs.AllocRunning}, {"dead " + r, structs.AllocRunning},
		{"!dead " + r, structs.AllocRunning}, {"!dead " + p, structs.AllocPending}, {"!dead dead", structs.AllocFailed},
		{"dead dead", structs.AllocComplete},
	} {
		tasks := map[string]*structs.TaskState{}
		for i, word := range strings.Fields(tc.states) {
			state, failed := strings.CutPrefix(word, "!")
			tasks[string(rune('a'+i))] = &structs.TaskState{State: state, Failed: failed}
		}
		if got, _ := summarizeTasks(tasks); got != tc.want {
			t.Errorf("%s: got %s, want %s", tc.states, got, tc.want)
		}
	}
}

func TestTaskVariables_ExpandReferences(t *testing.T) {
	alloc := testAlloc("web")
	alloc.Job.Meta = map[string]string{"owner": "job", "tier": "job"}
	g := alloc.Job.TaskGroups[0]
	g.Meta = map[string]string{"tier": "group"}
	task := g.Tasks[0]
	task.Meta = map[string]string{"a-b": "task"}
	task.Resources = &structs.Resources{CPU: 500, MemoryMB: 64}
	task.Env = map[string]string{"HOME": "${NOMAD_TASK_DIR}/home", "NODE": "${node.unique.name}/${attr.kernel.name}/${meta.rack}", "SHELL_VAR": "${unknown}"}
	node := &structs.Node{ID: "n1", Name: "node1", Datacenter: "dc1", NodeClass: "big",
		Attributes: map[string]string{"kernel.name": "linux"}, Meta: map[string]string{"rack": "r1"}}
	env, vars := taskVariables(alloc, g, task, node, isolated, "global")
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
		"${NOMAD_ALLOC_ID}/x": "alloc1/x", "${ node.class }": "big", "${env.HOME}": "/local/home", "${HOME}": "/local/home",
		"${NODE}": "node1/linux/r1", "${SHELL_VAR}": "${unknown}", "$NOMAD_ALLOC_ID": "$NOMAD_ALLOC_ID", "${": "${", "plain": "plain",
	} {
		if got := vars.expand(in); got != want {
			t.Errorf("%s: got %q, want %q", in, got, want)
		}
	}
	in := map[string]any{"args": []any{"${NOMAD_JOB_ID}", 1, true}, "l": []string{"${node.pool}"}, "m": map[string]string{"k": "${JOB}"},
		"deep": []map[string]any{{"x": map[string]any{"y": "${NOMAD_DC}"}}}, "${NOMAD_DC}": nil}
	want := map[string]any{"args": []any{"job", 1, true}, "l": []string{""}, "m": map[string]string{"k": "${JOB}"},
		"deep": []map[string]any{{"x": map[string]any{"y": "dc1"}}}, "${NOMAD_DC}": nil}
	if got := vars.expandMap(in); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if vars.expandMap(nil) != nil {
		t.Error("a nil config does not stay nil")
	}
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

func TestHookSequence_UpInOrderAndDownInReverse(t *testing.T) {
	var log []string
	failing := map[string]int{}
	do := func(what string) func(context.Context) error {
		return func(context.Context) error {
			log = append(log, what)
			if failing[what]--; failing[what] >= 0 {
				return errors.New("no")
			}
			return nil
		}
	}
	var saved [][]string
	var full error
	s := &hookSequence{logger: hclog.NewNullLogger(), save: func(b []string) error { saved = append(saved, b); return full }}
	for _, n := range []string{"a", "b", "c"} {
		s.list = append(s.list, boundHook{n, do("up " + n), do("down " + n)})
	}
	ctx := context.Background()
	failing["up c"] = 1
	var he *hookError
	if err := s.up(ctx); !errors.As(err, &he) || he.hook != "c" {
		t.Fatalf("got %v, want an error of c", err)
	}
	failing["down b"], failing["down c"] = 1, 1
	err := s.down(ctx)
	if err == nil || !strings.Contains(err.Error(), "hook c") || !strings.Contains(err.Error(), "hook b") {
		t.Errorf("got %v, want the errors of b and c", err)
	}
	equal(t, "begun", s.begun, []string{"b", "c"})
	if err := s.down(ctx); err != nil {
		t.Error(err)
	}
	equal(t, "order", log, []string{"up a", "up b", "up c", "down c", "down b", "down a", "down c", "down b"})
	if !reflect.DeepEqual(saved, [][]string{{"a"}, {"a", "b"}, {"a", "b", "c"}, {"b", "c"}, {"b"}, {}}) {
		t.Errorf("saved %q", saved)
	}
	s.begun = []string{"of another version"}
	if err := s.down(ctx); err != nil || len(s.begun) > 0 {
		t.Errorf("an unknown hook: %v, left %v", err, s.begun)
	}
	full, log = errors.New("disk full"), nil
	if err := s.up(ctx); err == nil || !strings.Contains(err.Error(), "disk full") || len(log) > 0 {
		t.Errorf("got %v after %v: what cannot be recorded is not begun", err, log)
	}
}

func TestAppendEvent_KeepsTheNewest(t *testing.T) {
	s := &structs.TaskState{}
	for i := range 25 {
		appendEvent(s, &structs.TaskEvent{ExitCode: i})
	}
	if len(s.Events) != structs.MaxTaskEvents || s.Events[0].ExitCode != 15 || s.Events[9].ExitCode != 24 {
		t.Errorf("%d events, from %d", len(s.Events), s.Events[0].ExitCode)
	}
}
