// Package secrets keeps the secrets of tasks in memory: a file system of its own is mounted on the secrets
// directory of each task, until the allocation has ended. It is there before the agent or the task writes a
// secret, outlives the agent, and never reaches a disk.
//
// The directory stays on the disk where the agent may not mount, where the configuration says so, and for an
// allocation that has begun on the disk: a mount would hide its files.
//
// The package also writes and reads the files of the agent in the directory. The task can put anything in
// their place. So no symbolic link is followed, and a read is bounded. One of the files is a socket of the
// agent's API (APISockets).
package secrets

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"berth/client/allocrunner/taskdirs"
	"berth/client/csi/mounts"
	"berth/client/hooks"
	"berth/structs"
)

// DefaultSizeMB is the size of the secrets of a task, in MiB.
const DefaultSizeMB = 16

// MaxSizeMB bounds it.
const MaxSizeMB = 1024

// source is the source of this package's mounts in the mount table.
const source = "berth-secrets"

// Mounter makes the hooks of the allocations of a node.
type Mounter struct {
	sizeMB   int
	logger   hclog.Logger
	rejected sync.Once // the agent may not mount, and the log says so
}

// NewMounter returns the Mounter for directories of a size in MiB. With 0 they stay on the disk.
func NewMounter(sizeMB int, logger hclog.Logger) *Mounter {
	return &Mounter{sizeMB: sizeMB, logger: logger}
}

// Hook returns the hook of an allocation.
func (m *Mounter) Hook(env *hooks.AllocEnv) hooks.Alloc { return &secrets{m, env} }

type secrets struct {
	m   *Mounter
	env *hooks.AllocEnv
}

// Name implements hook.Alloc.
func (*secrets) Name() string { return "secrets" }

// Up mounts the directories that are not mounted yet. They exist.
func (s *secrets) Up(context.Context, *hooks.AllocEnv) error {
	if s.m.sizeMB == 0 {
		return nil
	}

	root, err := filepath.EvalSymlinks(s.env.Dir)
	if err != nil {
		return err
	}

	for _, t := range s.env.Group.Tasks {
		dir := taskdirs.Secrets(root, t.Name)
		mounted, err := mounts.IsRoot(dir)
		if err == nil && !mounted {
			err = s.mount(dir)
		}
		if err != nil {
			return err
		}
	}

	return nil
}

// mount mounts one directory, if that hides nothing from a task.
func (s *secrets) mount(dir string) error {
	empty, err := isEmpty(dir)
	if err != nil {
		return err
	}
	if !empty || s.env.Running() {
		return nil
	}
	err = mounts.Tmpfs{Source: source, SizeMB: s.m.sizeMB}.Mount(dir)
	if structs.IsKind(err, structs.KindDenied) {
		s.m.rejected.Do(func() {
			s.m.logger.Warn("the agent may not mount; the secrets of tasks stay on disk", "error", err)
		})
		return nil
	}
	return err
}

func isEmpty(dir string) (bool, error) {
	f, err := os.OpenFile(dir, unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return false, fmt.Errorf("looking at the secrets of a task: %w", err)
	}
	defer func() { _ = f.Close() }()
	_, err = f.Readdirnames(1)
	if errors.Is(err, io.EOF) {
		return true, nil
	}
	return false, err
}

// Down unmounts all directories, and so drops the secrets.
func (s *secrets) Down(context.Context) error {
	root, err := filepath.EvalSymlinks(s.env.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var errs []error
	for _, t := range s.env.Group.Tasks {
		errs = append(errs, mounts.ReleaseTmpfs(taskdirs.Secrets(root, t.Name), source))
	}
	return errors.Join(errs...)
}
