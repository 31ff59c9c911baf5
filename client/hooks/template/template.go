// Package template renders the templates of a task into files, before each start of its process, and
// again when a value changes that a text has read: a file in the directories of the task, the metadata of the
// node, a service or a key. A change then acts on the process, as the template says.
//
// The text is a Go text/template with the functions of the dialect (ADR 31). It comes from a user or from the
// task, and runs in the agent, which has all rights on the machine:
//
//   - A text reads no variable of the agent, and no file outside of the directories of its task, also not
//     through a symbolic link that the task makes. Likewise, no file is written outside of them.
//   - Time, steps, depth and memory of a rendering are bounded.
//
// A record has the values that each text has read. After a restart of the agent, a template of a running
// process is rendered only if one of them has changed: a text with a time would otherwise change each time.
package template

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hashicorp/go-envparse"
	"github.com/hashicorp/go-hclog"
	"golang.org/x/sync/semaphore"

	"berth/client/hooks"
	"berth/client/login"
	"berth/client/store"
	"berth/consul/lookup"
	"berth/internal/files"
	"berth/structs"
)

// Config has the parts of the agent that the hook needs.
type Config struct {
	DB     *store.DB
	Logger hclog.Logger
	Slots  *semaphore.Weighted // of the renderings at a time: see MaxRunning
	// Lookups answers the questions of texts for services, keys and variables.
	Lookups *lookup.Pool
}

// MaxRunning bounds the renderings at a time on a node: each may take maxValues and a core.
const MaxRunning = 8

// PollInterval is the time between two looks for changes of the values.
const PollInterval = 2 * time.Second

// patience is the time without answers after which the task says why it waits.
const patience = time.Second

// record has the templates of a task in the node's store, by their destinations in the job.
type record struct {
	Rendered map[string]*rendered
}

var records = store.NewTable[record]("templates")

// rendered is a template as it was rendered last.
type rendered struct {
	Text  string // digest
	Reads *reads
}

// templates is the hook of one task.
type templates struct {
	db     *store.DB
	logger hclog.Logger
	key    string
	slots  *semaphore.Weighted

	lookups   *lookup.Reader
	namespace string   // of the job
	variables []string // paths of the variables that the task may read
	owner     string   // the task, as the owner of tokens

	// Only Up and the goroutine of Started, which never run together, use these.
	task    *structs.Task
	expand  func(string) string
	values  *values
	rec     record
	unsaved bool
	said    map[string]string   // the last message about a template
	asked   map[string][]answer // of the last rendering of a template
	unrests map[string]*unrest  // of templates whose answers change
	again   time.Duration       // until the next look for changes, at most

	hooks.Background
}

// New makes the hook of a task. It is nil for a task without templates.
func New(cfg Config, env *hooks.AllocEnv, task *structs.Task) hooks.Task {
	if len(task.Templates) == 0 {
		return nil
	}
	return &templates{
		db:     cfg.DB,
		logger: cfg.Logger.With("alloc_id", env.Alloc.ID, "task", task.Name),
		key:    store.Key(env.Alloc.ID, task.Name),
		slots:  cfg.Slots,
		asked:  map[string][]answer{},

		lookups:   cfg.Lookups.NewReader(),
		namespace: env.Alloc.Namespace,
		variables: variablePaths(env.Alloc, task),
		owner:     login.KeyOf(env.Alloc.ID, task.Name),
	}
}

// Name implements hook.Task.
func (h *templates) Name() string { return "templates" }

// Up renders all templates. It waits for the files that they read. For a process that runs since before the
// agent restarted, Started compares the values.
func (h *templates) Up(ctx context.Context, env *hooks.TaskEnv) error {
	h.task = env.Task
	h.expand = env.Expand
	h.values = newValues(env)
	h.values.lookups = h.lookups
	h.values.namespace = h.namespace
	h.values.variables = h.variables
	h.values.task = h.owner
	h.values.vault = h.task.Vault
	if login.LogsInAtConsul(h.task) {
		h.values.consulTask = h.owner
	}

	h.said = map[string]string{}
	h.unrests = map[string]*unrest{}
	if env.Running {
		return h.restore()
	}

	// A new process starts with new values.
	h.rec = record{Rendered: map[string]*rendered{}}
	for _, t := range h.task.Templates {
		err := h.renderFirst(ctx, env, t)
		if err != nil {
			return fmt.Errorf("template %s: %w", structs.Cut(t.DestPath, structs.MaxQuoted), err)
		}
	}

	return h.save()
}

// Down removes the record, and asks for no answers any more. The files belong to the directory of the
// allocation.
func (h *templates) Down(context.Context) error {
	h.lookups.Keep(nil)
	return records.Delete(h.db, h.key)
}

func (h *templates) save() error { return records.Put(h.db, h.key, &h.rec) }

// restore reads the record of a process that runs. Its environment has values that only its start knew.
func (h *templates) restore() error {
	rec, err := records.Get(h.db, h.key)
	if err != nil {
		return err
	}

	h.rec = record{Rendered: map[string]*rendered{}}
	if rec == nil {
		// Without its record, a template is rendered once when the process is watched.
		return nil
	}

	maps.Copy(h.rec.Rendered, rec.Rendered)
	for _, r := range h.rec.Rendered {
		for name, v := range r.Reads.Fixed {
			// A variable that was not set at the start must not have a value now.
			delete(h.values.env, name)
			if v.Set {
				h.values.env[name] = v.Value
			}
		}
	}

	return nil
}

// renderFirst renders a template before the process starts. It waits for files and answers.
func (h *templates) renderFirst(ctx context.Context, env *hooks.TaskEnv, t *structs.Template) error {
	begin := time.Now()
	for {
		text, read, err := h.render(ctx, t)
		if ctx.Err() != nil {
			return ctx.Err()
		}

		h.follow(t, read)
		_, missing := errors.AsType[missingError](err)
		_, waits := errors.AsType[waitError](err)
		if missing || waits {
			pause := PollInterval
			// Most answers come soon, so a short wait is not told.
			if left := patience - time.Since(begin); waits && left > 0 {
				pause = left
			} else {
				h.sayWaiting(env.Emit, t, err)
			}

			if !h.pause(ctx, pause) {
				return ctx.Err()
			}

			continue
		}
		if err == nil {
			err = h.write(t, text)
		}

		if err == nil && t.Envvars {
			err = addVariables(env.Config.Env, text)
		}

		h.rec.Rendered[t.DestPath] = &rendered{digest(text), read}
		return err
	}
}

// render renders a template once there is a slot for it.
func (h *templates) render(ctx context.Context, t *structs.Template) (string, *reads, error) {
	err := h.slots.Acquire(ctx, 1)
	if err != nil {
		return "", newReads(t), err
	}
	defer h.slots.Release(1)
	// The wait for a slot is not the time of the text.
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	return render(ctx, t, h.values, h.expand(t.SourcePath))
}

// write replaces the file of a template.
func (h *templates) write(t *structs.Template, text string) error {
	mode, err := t.Mode()
	if err != nil {
		return structs.Invalidf("perms: %w", err)
	}

	f := files.File{
		Text: text,
		Mode: mode,
		UID:  -1,
		GID:  -1,
	}

	if t.Uid != nil {
		f.UID = *t.Uid
	}

	if t.Gid != nil {
		f.GID = *t.Gid
	}

	return h.values.dirs.WriteFile(h.expand(t.DestPath), f)
}

// addVariables adds the lines of a text, such as NAME=value, to an environment.
func addVariables(env map[string]string, text string) error {
	vars, err := envparse.Parse(strings.NewReader(text))
	switch {
	case err != nil:
		return structs.Invalidf("its text is not a list of variables, one NAME=value a line: %w", err)
	case len(vars) > structs.MaxPairs || structs.PairBytes(vars) > structs.MaxPairsBytes:
		return structs.Invalidf("its text has more than %d variables or %d bytes of them",
			structs.MaxPairs, structs.MaxPairsBytes)
	}

	for name, value := range vars {
		if strings.ContainsRune(value, 0) {
			return structs.Invalidf("its variable %s holds NUL", name)
		}

		if !utf8.ValidString(value) { // the task would get other bytes: drivers pass texts on
			return structs.Invalidf("its variable %s is not text in UTF-8; use base64, for example", name)
		}

		env[name] = value
	}

	return nil
}

// say records an event about a template, unless it was the last one.
func (h *templates) say(emit func(*structs.TaskEvent), t *structs.Template, message string) {
	h.record(emit, t, message, nil)
}

// sayWaiting is say for a reason to wait, which takes the place of the one before it.
func (h *templates) sayWaiting(emit func(*structs.TaskEvent), t *structs.Template, err error) {
	details := map[string]string{hooks.ProgressKey: "template " + structs.Cut(t.DestPath, structs.MaxQuoted)}
	h.record(emit, t, "waiting: "+err.Error(), details)
}

func (h *templates) record(
	emit func(*structs.TaskEvent), t *structs.Template, message string, details map[string]string,
) {
	if h.said[t.DestPath] == message {
		return
	}
	h.said[t.DestPath] = message
	emit(&structs.TaskEvent{
		Type:    structs.TaskEventTemplate,
		Message: structs.Cut(t.DestPath, structs.MaxQuoted) + ": " + message,
		Details: details,
	})
}
