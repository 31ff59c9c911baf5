// Package artifact downloads the artifacts of a task before its first start. Each download is a process
// of its own in a sandbox (see download), which writes to an empty directory and sees nothing else of the
// allocation. The process runs as an unprivileged user. It ends with the agent.
//
// When the process has ended, the agent checks the files and moves them to the destination. It opens paths of
// the allocation only through an os.Root, so that no link in them leads out. A failed download leaves
// nothing.
package artifact

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"berth/client/allocrunner/taskdirs"
	"berth/client/drivers/executor"
	"berth/client/drivers/sandbox"
	"berth/client/hooks"
	"berth/internal/placeholder"
	"berth/structs"
	"berth/structs/validate/taskfiles"
)

// Config has the parts of the agent that the hook needs.
type Config struct {
	Settings Settings
	// AgentPorts are the ports of the agent, which are no sources at any address of the node.
	AgentPorts []int
	// Dir is a directory of the agent. The sandboxes mount their roots below it.
	Dir string
	// Command runs executor.Main (see executor.DefaultCommand).
	Command []string
	// Progress receives how far a download is, "" once none runs.
	Progress func(allocID, reason string)
	// Slots bounds the downloads that run at a time on the node.
	Slots *Slots
	// MinFree returns the bytes that stay free on the disk of the allocations.
	MinFree func() int64
	// Groups makes the cgroup of each download.
	Groups *Groups
}

// artifacts is the hook of one task.
type artifacts struct {
	cfg      Config
	task     string
	taskDir  string
	shared   string // the directory that the tasks of the allocation share
	complete int    // the artifacts that are in their places
}

// New makes the hook of a task. It is nil for a task without artifacts.
func New(cfg Config, env *hooks.AllocEnv, task *structs.Task) hooks.Task {
	if len(task.Artifacts) == 0 {
		return nil
	}
	return &artifacts{
		cfg:     cfg,
		task:    task.Name,
		taskDir: filepath.Join(env.Dir, task.Name),
		shared:  taskdirs.Shared(env.Dir),
	}
}

func (a *artifacts) Name() string { return "artifacts" }

// Up downloads the artifacts of a task that has not run yet. After a failure it continues at the artifact
// that failed.
func (a *artifacts) Up(ctx context.Context, env *hooks.TaskEnv) error {
	list := env.Task.Artifacts
	if env.Running || !env.FirstStart || a.complete >= len(list) {
		return nil
	}

	env.Emit(&structs.TaskEvent{
		Type:    structs.TaskEventDownloading,
		Message: fmt.Sprintf("Client is downloading artifacts (%d)", len(list)-a.complete),
	})
	begin := time.Now()
	var sum usage
	for ; a.complete < len(list); a.complete++ {
		got, err := a.fetch(ctx, env, list[a.complete])
		if err != nil {
			return a.failure(env, fmt.Errorf("artifact %d: %w", a.complete+1, err))
		}

		sum.add(got)
	}

	env.Emit(&structs.TaskEvent{
		Type: structs.TaskEventDownloading,
		Message: fmt.Sprintf("Artifacts are complete: %s in %d files, after %s",
			structs.FormatBytes(sum.bytes), sum.files, time.Since(begin).Round(time.Millisecond)),
	})

	return nil
}

// failure ends the report of the progress. Its error says whether another start may help.
func (a *artifacts) failure(env *hooks.TaskEnv, err error) error {
	a.cfg.Progress(env.Alloc.ID, "")
	return &hooks.Failure{
		Event: structs.TaskEventDownloadFailed,
		Final: isFinal(err),
		Err:   err,
	}
}

// Down removes the remains of a download whose agent was killed.
func (a *artifacts) Down(context.Context) error {
	return errors.Join(
		// Each destination is in one of the two.
		removeScratch(a.taskDir, a.task),
		removeScratch(a.shared, a.task),
		a.cfg.Groups.Machine.Path(groupParent, a.groupName()).Remove())
}

// expandSpec returns an artifact with the placeholders of its texts replaced.
func expandSpec(spec *structs.TaskArtifact, replace func(string) string) *structs.TaskArtifact {
	out := *spec
	out.GetterSource = replace(spec.GetterSource)
	out.GetterMode = replace(spec.GetterMode)
	out.RelativeDest = replace(spec.RelativeDest)
	out.GetterOptions = placeholder.InMap(spec.GetterOptions, replace)
	out.GetterHeaders = placeholder.InMap(spec.GetterHeaders, replace)
	return &out
}

// leftover matches a placeholder without a value.
var leftover = regexp.MustCompile(`\$\{[^{}]{0,80}\}?`)

// checkReplaced rejects an artifact with a placeholder that has no value, in a text that becomes a path, a
// part of an address or an argument of git. The error shows the placeholder alone: the rest may be secret.
func checkReplaced(spec *structs.TaskArtifact) error {
	texts := [][2]string{
		{"source", spec.GetterSource},
		{"destination", spec.RelativeDest},
	}
	// In this order the first fault is the same one each time.
	for _, key := range slices.Sorted(maps.Keys(spec.GetterOptions)) {
		// A key becomes a part of the query, too.
		texts = append(texts, [2]string{"options", key}, [2]string{"options", spec.GetterOptions[key]})
	}
	for _, named := range texts {
		if left := leftover.FindString(named[1]); left != "" {
			return structs.Invalidf("%s: the placeholder %s has no value for this task on this node; "+
				"give it one, for example in meta, or correct its name", named[0], left)
		}
	}
	return nil
}

// ownerOf returns the owner of the files of an artifact: root, unless the job gives them to the user of its
// task.
func ownerOf(spec *structs.TaskArtifact, taskUser string) (*sandbox.User, error) {
	root := &sandbox.User{}
	if !spec.Chown {
		return root, nil
	}

	user, err := executor.LookupUser(taskUser)
	if err != nil || user == nil {
		return root, err
	}

	return user, nil
}

// fetch downloads one artifact and moves it to its place.
func (a *artifacts) fetch(
	ctx context.Context, env *hooks.TaskEnv, spec *structs.TaskArtifact,
) (usage, error) {
	if spec == nil {
		return usage{}, structs.Invalidf("it is null")
	}

	spec = expandSpec(spec, env.Expand)
	// The validation of the job has seen the placeholders and not their values.
	err := cmp.Or(checkReplaced(spec), taskfiles.Artifact(spec))
	if err != nil {
		return usage{}, err
	}

	owner, err := ownerOf(spec, env.Config.User)
	if err != nil {
		return usage{}, err
	}

	to, err := a.placeOf(spec.RelativeDest, env.Seen)
	if err != nil {
		return usage{}, err
	}

	// The directory is beside the destination, so that the move is a rename in most cases.
	s, err := newScratch(to, a.task)
	if err != nil {
		return usage{}, err
	}

	got, err := a.download(ctx, env, s, spec)
	if err == nil {
		err = account(env.AllocEnv, got)
	}
	if err == nil {
		err = s.deliver(to.path, owner)
		if err != nil {
			// The files are removed below, and take nothing of the disk.
			env.Downloaded.Add(-got.bytes)
		}
	}

	// After a success only the remains go.
	return got, errors.Join(err, s.remove())
}
