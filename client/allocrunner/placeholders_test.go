package allocrunner

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"berth/client/drivers/driver"
	"berth/client/hooks"
	"berth/structs"
	"berth/structs/jobaction"
	"berth/test/jobtext"
)

// TestTask_ReplacesPlaceholders starts a task with placeholders, and looks at the driver's task.
func TestTask_ReplacesPlaceholders(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a := fx.agent()
		defer a.stop()
		a.allocs[0].setup = func(env *hooks.AllocEnv) {
			env.SetVolume(jobtext.Value, hooks.VolumeMount{Folders: fakeFolders("/data")})
		}
		r := a.new(allocWithPlaceholders())
		synctest.Wait()
		cfg := fx.machine.Task("alloc1/" + jobtext.Value).Config
		if len(cfg.Mounts) != 1 {
			t.Fatalf("the task has the mounts %v: %s", cfg.Mounts, eventMessages(a.last().TaskStates[jobtext.Value]))
		}
		m := cfg.Mounts[0]
		command := commandOfAction(t, fx, r)
		r.Stop("enough")
		<-r.Unwound()
		jobtext.Check(t, "client/allocrunner", map[string]bool{
			"Job.Meta":                    cfg.Env["NOMAD_META_job_web"] == jobtext.Value,
			"TaskGroup.Meta":              cfg.Env["NOMAD_META_group_web"] == jobtext.Value,
			"Task.Meta":                   cfg.Env["NOMAD_META_task_web"] == jobtext.Value,
			"Task.Env":                    cfg.Env["OF_TASK"] == jobtext.Value,
			"Task.User":                   cfg.User == "user-"+jobtext.Value,
			"Task.Config":                 cfg.Config["command"] == jobtext.Value,
			"Task.KillSignal":             fx.machine.Task("alloc1/"+jobtext.Value).Signal == "SIGUSR1",
			"Action.Command":              command[0] == jobtext.Value,
			"Action.Args":                 command[1] == jobtext.Value,
			"VolumeMount.Volume":          strings.HasPrefix(m.HostPath, "/data "),
			"VolumeMount.SubPath":         strings.HasSuffix(m.HostPath, " "+jobtext.Value+" mounted"),
			"VolumeMount.Destination":     m.TaskPath == "/"+jobtext.Value,
			"VolumeMount.PropagationMode": m.Propagation == jobtext.Value,
		})
	})
}

// commandOfAction runs the action a, and returns its words as the driver gets them.
func commandOfAction(t *testing.T, fx *fixture, r *Runner) (words []string) {
	t.Helper()
	fx.machine.Command = func(_ context.Context, _ string, x *driver.ExecConfig) (*driver.ExitResult, error) {
		words = x.Command
		return &driver.ExitResult{}, nil
	}
	run, err := Action(r, jobaction.Target{Action: "a"})
	if err == nil {
		_, err = run(t.Context(), &driver.ExecConfig{Command: []string{"another"}})
	}
	if err != nil || len(words) != 2 {
		t.Fatalf("the action: %v, %v", words, err)
	}
	return words
}

func allocWithPlaceholders() *structs.Allocation {
	metaOf := func(of string) map[string]string {
		return map[string]string{of + jobtext.Placeholder: jobtext.Placeholder}
	}
	alloc := testAlloc(jobtext.Value)
	alloc.Job.Meta = metaOf("job_")
	alloc.Job.Meta["signal"] = "SIGUSR1"
	g := alloc.Job.TaskGroups[0]
	g.Meta = metaOf("group_")
	task := g.Tasks[0]
	task.Meta = metaOf("task_")
	task.Env = map[string]string{"OF_TASK": jobtext.Placeholder}
	task.User = "user-" + jobtext.Placeholder // the agent denies the user web
	task.Config = map[string]any{"command": jobtext.Placeholder}
	task.Actions = []*structs.Action{{
		Name:    "a",
		Command: jobtext.Placeholder,
		Args:    []string{jobtext.Placeholder},
	}}
	task.KillSignal = "${NOMAD_META_signal}"
	task.VolumeMounts = []*structs.VolumeMount{jobtext.Fill(&structs.VolumeMount{})}
	return alloc
}
