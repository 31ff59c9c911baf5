package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/moby/moby/client"

	"berth/client/drivers/docker/engine"
	"berth/client/drivers/docker/hostconfig"
	"berth/client/drivers/docker/images"
	"berth/client/drivers/docker/taskconfig"
	"berth/client/drivers/driver"
	"berth/client/drivers/sandbox"
	"berth/internal/files"
	"berth/structs"
)

// defaultPullTimeout bounds a download or a load if the job does not.
const defaultPullTimeout = 5 * time.Minute

// Start implements driver.Driver. While the daemon is away, it waits: that is no failure of the task.
func (d *Driver) Start(ctx context.Context, cfg *driver.TaskConfig) (*driver.Handle, error) {
	want, err := taskconfig.Decode(cfg.Config)
	if err != nil {
		return nil, err
	}

	err = hostconfig.CheckPrivileges(d.cfg, cfg, want)
	if err != nil {
		return nil, err
	}

	cfg = d.withReadableLogs(cfg, want.Logging)
	// The search for dangling containers must not take the new container for one.
	defer d.tasks.noteStarting(cfg.ID)()
	err = d.clearPlace(ctx, cfg.ID)
	if err != nil {
		return nil, err
	}

	h, err := d.start(ctx, cfg, want)
	if err != nil {
		d.noteFailure(err)
		d.runtimes.note("") // which the daemon perhaps has no more
		clean, cancel := detached(ctx)
		defer cancel()
		return nil, errors.Join(err, d.undoStart(clean, cfg.ID))
	}

	return h, nil
}

// start makes all that a task consists of. If it fails, undoStart removes it.
func (d *Driver) start(
	ctx context.Context, cfg *driver.TaskConfig, want *taskconfig.Task,
) (*driver.Handle, error) {
	p, err := prepare(ctx, d, cfg, want)
	if err != nil {
		return nil, err
	}

	guard, err := d.GuardOf(p.cfg.OrderGuard)
	if err != nil {
		return nil, err
	}

	give := func(id string) error { return d.giveDirs(ctx, p.cfg, p.image, id) }
	id, err := guard.Launch(ctx, d.engine, p.options, give)
	if err != nil {
		return nil, err
	}

	t := &task{
		id:        p.cfg.ID,
		container: id,
		image:     p.image.ID,
		logs:      logSettingsOf(p.cfg),
	}

	err = d.output.start(ctx, t)
	if err != nil {
		return nil, err
	}

	c, err := d.engine.Inspect(ctx, id)
	if err != nil {
		return nil, err
	}

	if p.joined != "" {
		err = checkJoined(c, p.cfg.NamespaceOf())
	}
	if err == nil {
		err = guard.Check(ctx, d.engine, c)
	}
	if err != nil {
		return nil, err
	}

	d.tasks.hold(t)
	return t.handle(c)
}

// prepared is all that exists of a task before its container.
type prepared struct {
	cfg     *driver.TaskConfig // bounded to what the runtime may give
	image   *engine.Image
	joined  string // the container whose network the task joins, "" for none
	options client.ContainerCreateOptions
}

// prepare makes the daemon have the image and the network of a task, and describes the container.
func prepare(
	ctx context.Context, d *Driver, cfg *driver.TaskConfig, want *taskconfig.Task,
) (p *prepared, err error) {
	bounded, runtime, err := d.runtimes.choose(ctx, cfg, want.Runtime)
	if err != nil {
		return nil, err
	}

	want.Runtime = runtime
	p = &prepared{cfg: bounded}
	p.image, err = d.acquire(ctx, p.cfg, want)
	if err != nil {
		return nil, err
	}

	if joins(p.cfg, want) {
		p.joined, err = d.pauses.ensure(ctx, p.cfg)
		if err != nil {
			return nil, err
		}
	}

	p.options, err = d.containers.containerOf(p.cfg, want, p.image, p.joined)
	return p, err
}

// undoStart removes what a failed start has left.
func (d *Driver) undoStart(ctx context.Context, id string) error {
	t, err := d.findLost(ctx, id)
	if err != nil {
		return withoutNotFound(err)
	}
	d.images.Release(id)
	return errors.Join(removeContainer(ctx, d.engine, t.container), d.output.stop(ctx, id))
}

// clearPlace is removeStale once the daemon is there.
func (d *Driver) clearPlace(ctx context.Context, id string) error {
	pause := lostPause
	for told := false; ; told = true {
		err := d.removeStale(ctx, id)
		if !structs.IsKind(err, structs.KindUnavailable) {
			return err
		}
		d.noteFailure(err)
		if !told {
			d.emit(id, "The docker daemon is away; the task starts when it is back")
		}
		if !pause.Wait(ctx) {
			return err
		}
	}
}

// removeStale removes the container of an earlier run of the task. A running one that this agent holds is a
// conflict. A container of others is, too: a name says nothing about whose it is.
func (d *Driver) removeStale(ctx context.Context, id string) error {
	name := containerName(id)
	c, err := d.engine.Inspect(ctx, name)
	if err != nil {
		return withoutNotFound(err)
	}
	if !d.containers.isOurs(c, id) {
		return structs.Conflictf(
			"docker: the name %s belongs to container %s, which is not of this task; remove it", name, c.ID)
	}
	t, err := d.tasks.find(id)
	if err == nil && t.container == c.ID && !hasEnded(c) {
		return structs.Conflictf("task %q runs already", id)
	}
	return errors.Join(removeContainer(ctx, d.engine, c.ID), d.output.stop(ctx, id))
}

// acquire makes the daemon have the task's image.
func (d *Driver) acquire(
	ctx context.Context, cfg *driver.TaskConfig, want *taskconfig.Task,
) (*engine.Image, error) {
	r := images.Request{
		TaskID: cfg.ID,
		Ref:    want.Image,
		Force:  want.ForcePull,
		Limit:  want.PullTimeout,
		Progress: func(text string) {
			d.emit(cfg.ID, "%s", text)
		},
	}

	if r.Limit == 0 {
		r.Limit = defaultPullTimeout
	}

	if want.Load != "" {
		path := localName(want.Load)
		r.Archive = filepath.Join(cfg.Dirs.Local, path)
		r.Open = func() (io.ReadCloser, error) { return openInside(cfg.Dirs, path) }
		return d.images.Acquire(ctx, r)
	}

	return d.download(ctx, r, want)
}

// download acquires an image of a registry. With auth_soft_fail it goes on without credentials that cannot be
// had or that do not lead to the image. A registry need not say that the credentials are the reason, so every
// failed download counts. Both attempts share the time of one.
func (d *Driver) download(
	ctx context.Context, r images.Request, want *taskconfig.Task,
) (*engine.Image, error) {
	begin := time.Now()
	auth, err := images.Credentials(ctx, d.cfg.Auth, want)
	if err == nil {
		r.Auth = auth
		var image *engine.Image
		image, err = d.images.Acquire(ctx, r)
		if err == nil {
			return image, nil
		}

		if auth == (engine.Auth{}) {
			return nil, err
		}
	}

	r.Limit -= time.Since(begin)
	if !want.AuthSoftFail || !structs.IsKind(err, structs.KindPrecondition) || r.Limit <= 0 ||
		ctx.Err() != nil {
		return nil, err
	}

	d.emit(r.TaskID, "Downloading the image without credentials (auth_soft_fail): %v", err)
	r.Auth = engine.Auth{}
	image, again := d.images.Acquire(ctx, r)
	if again != nil {
		return nil, fmt.Errorf("%w; with credentials: %w", again, err)
	}

	return image, nil
}

// localName returns a path in the task's local directory. A job may write it with or without the name of
// that.
func localName(path string) string {
	rest, ok := strings.CutPrefix(filepath.Clean(path), driver.Inside.Local+"/")
	if !ok {
		rest, ok = strings.CutPrefix(filepath.Clean(path), "local/")
	}
	if ok {
		return rest
	}
	return filepath.Clean(path)
}

// openInside opens a plain file in the local directory of a task. It follows no symbolic link out of that
// directory, and no link in its place out of the directory of the task.
func openInside(dirs driver.Dirs, path string) (io.ReadCloser, error) {
	own, err := os.OpenRoot(dirs.Task)
	if err != nil {
		return nil, err
	}
	defer own.Close()

	root, err := own.OpenRoot(filepath.Base(dirs.Local))
	if err != nil {
		return nil, structs.Preconditionf("config.load: opening the local directory: %w", err)
	}
	defer root.Close()

	dir, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	defer dir.Close()

	f, err := files.FindPlain(dir, path)
	if err != nil {
		return nil, structs.Preconditionf("config.load: %w", err)
	}

	return f, nil
}

// giveDirs makes the task's user the owner of the task's own directories.
func (d *Driver) giveDirs(
	ctx context.Context, cfg *driver.TaskConfig, image *engine.Image, container string,
) error {
	// As in the daemon, the job's user precedes the image's.
	name := cfg.User
	if name == "" {
		name = image.User
	}
	user, err := d.userOf(ctx, container, name)
	if err != nil {
		return err
	}
	return sandbox.GiveTaskDirs(cfg.Dirs, user, sandbox.OpenTmp)
}

// userOf finds a user of an image: "uid", "uid:gid", "name" or "name:group". A name is looked up in the
// container. A group with a name, and the default group of a user without one, are the group of the user in
// the container.
func (d *Driver) userOf(ctx context.Context, container, name string) (*sandbox.User, error) {
	who, group, _ := strings.Cut(name, ":")
	// The directories are root's already.
	if who == "" || who == "root" || who == "0" {
		return nil, nil
	}

	uid, uidErr := strconv.ParseUint(who, 10, 32)
	gid, gidErr := strconv.ParseUint(group, 10, 32)
	if uidErr == nil && gidErr == nil {
		return &sandbox.User{UID: uint32(uid), GID: uint32(gid)}, nil
	}

	users, err := d.engine.Users(ctx, container)
	if err != nil {
		return nil, err
	}

	for _, u := range users {
		if u.Name != who && (uidErr != nil || u.UID != uint32(uid)) {
			continue
		}

		found := &sandbox.User{UID: u.UID, GID: u.GID}
		if gidErr == nil {
			found.GID = uint32(gid)
		}

		return found, nil
	}

	if uidErr == nil {
		return &sandbox.User{UID: uint32(uid)}, nil // as the daemon does: group 0
	}

	return nil, structs.Invalidf("user %q: the image has no such user", name)
}
