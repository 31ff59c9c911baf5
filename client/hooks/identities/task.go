package identities

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"berth/client/allocrunner/taskdirs"
	"berth/client/hooks"
	"berth/client/store"
	osfiles "berth/internal/files"
	"berth/internal/idtoken"
	"berth/structs"
	"berth/structs/access"
)

// retryWrite is the time after which a file that could not be written is tried again.
const retryWrite = 5 * time.Second

// record has the times from which a process is to learn of another token, and the keys that have signed those
// that it knows, by the names of its identities.
type record struct {
	Renew map[string]time.Time
	Keys  map[string]string
}

var records = store.NewTable[record]("identities")

// taskHook shows the tokens of one task to it.
type taskHook struct {
	cfg    Config
	logger hclog.Logger
	alloc  string
	task   string
	key    string
	shown  []*structs.WorkloadIdentity // as files or variables

	// Only Up and the goroutine of Started, which never run together, use these.
	env     *hooks.TaskEnv
	files   *taskdirs.Files
	rec     record
	given   map[string]structs.Secret // that the process knows; without an entry, only the record is known
	written map[string]structs.Secret // that are in their files
	said    map[string]string         // the last event about an identity

	hooks.Background
}

// TaskHook returns the hook of a task. It is nil for a task that sees no token.
func (m *Manager) TaskHook(env *hooks.AllocEnv, task *structs.Task) hooks.Task {
	h := &taskHook{
		cfg:    m.cfg,
		logger: m.cfg.Logger.With("alloc_id", env.Alloc.ID, "task", task.Name),
		alloc:  env.Alloc.ID,
		task:   task.Name,
		key:    store.Key(env.Alloc.ID, task.Name),
	}

	for i := range structs.TaskIdentities(task) {
		if i.Env || i.File {
			h.shown = append(h.shown, i)
		}
	}

	if len(h.shown) == 0 {
		return nil
	}
	return h
}

// Name implements hooks.Task.
func (*taskHook) Name() string { return "identity" }

// Up writes the files and sets the variables. For a process that runs since before the agent restarted,
// Started does the rest.
func (h *taskHook) Up(ctx context.Context, env *hooks.TaskEnv) error {
	h.env = env
	h.files = taskdirs.NewFiles(env)
	h.rec = record{Renew: map[string]time.Time{}, Keys: map[string]string{}}
	h.given = map[string]structs.Secret{}
	h.written = map[string]structs.Secret{}
	h.said = map[string]string{}
	err := h.nameFiles()
	if err != nil {
		return err
	}

	if env.Running {
		return h.restore()
	}

	for _, i := range h.shown {
		token, err := h.await(ctx, i)
		if err == nil {
			err = h.give(i, token)
		}
		if err != nil {
			return err
		}
	}

	return h.save()
}

// Down removes the record. The files belong to the directory of the allocation, and their tokens end with it.
func (h *taskHook) Down(context.Context) error { return records.Delete(h.cfg.DB, h.key) }

func (h *taskHook) save() error { return records.Put(h.cfg.DB, h.key, &h.rec) }

func (h *taskHook) restore() error {
	rec, err := records.Get(h.cfg.DB, h.key)
	if err == nil && rec != nil {
		maps.Copy(h.rec.Renew, rec.Renew)
		maps.Copy(h.rec.Keys, rec.Keys)
	}
	return err
}

// nameFiles tells the driver which files to give to the user of the task.
func (h *taskHook) nameFiles() error {
	for _, i := range h.shown {
		if !i.File {
			continue
		}

		rel, err := h.files.Own(h.path(i))
		if err != nil {
			return fmt.Errorf("identity %s: %w", i.Name, err)
		}

		h.env.Config.Dirs.Tokens = append(h.env.Config.Dirs.Tokens, rel)
	}
	return nil
}

func (h *taskHook) path(i *structs.WorkloadIdentity) string {
	return h.env.Expand(structs.IdentityPath(i))
}

// token returns the newest token of an identity.
func (h *taskHook) token(i *structs.WorkloadIdentity) (hooks.Token, bool) {
	return h.env.Token(access.IdentityOfTask, h.task, i.Name)
}

// await returns the token of an identity, once there is one: after a restart of the agent, the servers may
// not have answered yet.
func (h *taskHook) await(ctx context.Context, i *structs.WorkloadIdentity) (hooks.Token, error) {
	wait := hooks.Wait{
		AllocID:  h.alloc,
		Task:     h.task,
		For:      "its signed identity " + i.Name,
		Progress: h.cfg.Progress,
		Emit:     h.env.Emit,
	}
	wait.Begin()
	defer wait.End()
	for {
		changed := h.env.TokensChanged()
		token, ok := h.token(i)
		if ok {
			return token, nil
		}

		select {
		case <-changed:
		case <-ctx.Done():
			return hooks.Token{}, ctx.Err()
		}
	}
}

// give shows a token to the process that is about to start.
func (h *taskHook) give(i *structs.WorkloadIdentity, token hooks.Token) error {
	if i.Env {
		h.env.Config.Env[structs.IdentityEnv(i)] = string(token.JWT)
	}

	err := h.write(i, token)
	if err != nil {
		return err
	}

	h.knows(i, token)
	return nil
}

// knows notes that the process knows a token.
func (h *taskHook) knows(i *structs.WorkloadIdentity, token hooks.Token) {
	h.given[i.Name] = token.JWT
	h.rec.Renew[i.Name] = token.Renew
	h.rec.Keys[i.Name] = idtoken.KeyID(string(token.JWT))
}

// write replaces the file of an identity, unless it has the token.
func (h *taskHook) write(i *structs.WorkloadIdentity, token hooks.Token) error {
	if !i.File || h.written[i.Name] == token.JWT {
		return nil
	}

	f, err := h.owned()
	if err != nil {
		return fmt.Errorf("identity %s: %w", i.Name, err)
	}

	f.Text = string(token.JWT)
	err = h.files.WriteFile(h.path(i), f)
	if err != nil {
		return fmt.Errorf("identity %s: %w", i.Name, err)
	}

	h.written[i.Name] = token.JWT
	return nil
}

// owned returns an empty file of the user of the task, who owns its local directory. The driver has opened
// that to all users if only it knows the user. Before the first start the owner is the agent, and the driver
// gives the file away.
func (h *taskHook) owned() (osfiles.File, error) {
	var st unix.Stat_t
	err := unix.Lstat(h.env.Config.Dirs.Local, &st)
	if err != nil {
		return osfiles.File{}, &os.PathError{Op: "lstat", Path: path.Base(h.env.Config.Dirs.Local), Err: err}
	}

	f := osfiles.File{
		Mode: 0o600,
		UID:  int(st.Uid),
		GID:  int(st.Gid),
	}
	if fs.FileMode(st.Mode)&0o002 != 0 {
		f.Mode = 0o444
	}
	return f, nil
}
